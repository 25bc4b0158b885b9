"""Every install line of the image's Dockerfile resolves for the image's platform, as far as PyPI goes.

What is resolved: uv itself and requirements.txt, by the Dockerfile's own arguments, against the package index
of the machine, without installing. What is not: gpu-wheels.txt and visgym.txt, whose files lie on other hosts
(wheels.astral.sh, flashinfer.ai, github.com); tests/unit/test_image_files.py holds them to exact versions.
"""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "training" / "image"
UV = ROOT / ".build" / "uv" / "bin" / "uv"
PLATFORM = ["--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_35"]
OTHER_HOSTS = {"gpu-wheels.txt", "visgym.txt"}


def install_lines() -> list[list[str]]:
    """Arguments of every `pip install` in the Dockerfile, the command's own name left out."""
    text = (IMAGE / "Dockerfile").read_text().replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"pip install ([^&\n]+)", text)]


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([UV, *arguments], cwd=IMAGE, capture_output=True, text=True, check=False)


def test_every_install_line_is_known_here() -> None:
    files = {line[line.index("-r") + 1] for line in install_lines() if "-r" in line}
    assert files == {"requirements.txt"} | OTHER_HOSTS


@pytest.mark.parametrize(
    "line",
    [line for line in install_lines() if not OTHER_HOSTS.intersection(line)],
    ids=lambda line: line[-1],
)
def test_install_line_resolves_for_the_image(line: list[str], tmp_path: Path) -> None:
    arguments = [argument for argument in line if argument != "--no-cache-dir"]
    run = uv("pip", "install", *arguments, "--no-config", "--dry-run", "--target", tmp_path, *PLATFORM)
    assert run.returncode == 0, run.stderr
    wanted = (
        set(re.findall(r"^([a-z0-9._-]+==[^\s\\]+)", (IMAGE / line[-1]).read_text(), re.MULTILINE))
        if ("-r" in line)
        else {line[-1]}
    )
    assert wanted == set(re.findall(r"^ \+ (\S+)$", run.stderr, re.MULTILINE))


def test_lock_is_what_the_requirements_resolve_to(tmp_path: Path) -> None:
    lock = shutil.copy(IMAGE / "requirements.txt", tmp_path)
    run = uv(
        *("pip", "compile", "requirements.in", "--override", "overrides.txt", "--no-config", "--quiet"),
        *("--generate-hashes", "--no-emit-index-url", "--no-annotate"),
        *("--custom-compile-command", "make lock", "--output-file", lock),
        *PLATFORM,
    )
    assert run.returncode == 0, run.stderr
    assert Path(lock).read_text() == (IMAGE / "requirements.txt").read_text(), "run `make lock`"


def test_bill_of_materials_lists_the_environment_it_is_made_of(tmp_path: Path) -> None:
    """The Dockerfile's own command line, by the locked release of the tool, on uv's small environment."""
    text = (IMAGE / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"cyclonedx-py [^&\n]+", text)
    arguments = shlex.split(line)
    arguments[-1] = str(UV.parent / "python")
    arguments[arguments.index("--output-file") + 1] = str(tmp_path / "sbom.json")
    (release,) = re.findall(r"^cyclonedx-bom==\S+", (IMAGE / "requirements.txt").read_text(), re.MULTILINE)
    run = uv("tool", "run", "--no-config", "--from", release, *arguments)
    assert run.returncode == 0, run.stderr
    sbom = json.loads((tmp_path / "sbom.json").read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    assert {"pip", "uv"} <= {component["name"] for component in sbom["components"]}
