"""The files that the training image is built from."""

import ast
import re
import subprocess
import sys
from pathlib import Path

IMAGE = Path(__file__).parents[2] / "training" / "image"
TOOLS = Path(sys.executable).parent
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)", flags=re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((IMAGE / name).read_text()))


def test_dockerfile_passes_hadolint() -> None:
    run = subprocess.run(
        [TOOLS / "hadolint", IMAGE / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


def test_every_locked_requirement_has_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", (IMAGE / "requirements.txt").read_text().strip())
    without = [entry for entry in entries if not entry.startswith("#") and "--hash=sha256:" not in entry]
    assert without == []


def test_lock_holds_what_is_asked_for() -> None:
    locked = pins("requirements.txt")
    asked = dict(
        re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)", (IMAGE / "requirements.in").read_text(), re.MULTILINE)
    )
    assert asked.items() <= locked.items()


def test_prebuilt_wheels_are_left_out_of_the_lock_and_fit_its_torch() -> None:
    locked, wheels = pins("requirements.txt"), pins("gpu-wheels.txt")
    assert locked.keys().isdisjoint(wheels)
    torch = locked["torch"].rsplit(".", 1)[0]
    assert wheels["flash-attn"].endswith(f"+cu.13.0.torch.{torch}")
    assert wheels["causal-conv1d"].endswith(f"+cu.13.0.torch.{torch}")
    # FlashInfer refuses companions of another version than its own.
    assert {wheels["flashinfer-cubin"], wheels["flashinfer-jit-cache"].split("+")[0]} == {
        locked["flashinfer-python"]
    }


def test_one_cuda_runtime_only() -> None:
    libraries = [
        name for name in pins("requirements.txt") if re.search(r"^nvidia-.*-cu12$|^nixl-cu12$", name)
    ]
    assert libraries == ["nvidia-cutlass-dsl-libs-cu12"]  # kernel templates, no runtime


def test_ray_is_the_version_of_the_charts() -> None:
    from stacks.workload import RAY_VERSION

    assert pins("requirements.txt")["ray"] == RAY_VERSION


def test_nobody_asks_for_gymnasium_so_visgym_can_stand_apart() -> None:
    assert "gymnasium" not in pins("requirements.txt")
    dockerfile = (IMAGE / "Dockerfile").read_text()
    assert "--target /opt/visgym -r visgym.txt" in dockerfile
    assert re.findall(r"PYTHONPATH=(\S+) \\$", dockerfile, re.MULTILINE) == ["/opt/app"]


def test_sources_outside_package_indexes_are_pinned_to_commits() -> None:
    addresses = re.findall(r"^https://\S+$", (IMAGE / "visgym.txt").read_text(), re.MULTILINE)
    assert [re.search(r"/([0-9a-f]{40})\.tar\.gz$", address) is not None for address in addresses] == [True]


def test_image_runs_as_rays_own_user() -> None:
    from k8s.names import RAY_USER_ID

    users = re.findall(r"^USER (\S+)$", (IMAGE / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["0", str(RAY_USER_ID)]


MODULES_OF_OTHER_NAMES = {"yaml": "pyyaml", "PIL": "pillow"}


def test_everything_that_the_package_imports_is_in_the_image() -> None:
    """The laptop's environment may have a package that the image has not: the job would end at its import."""
    imported: set[str] = set()
    for source in IMAGE.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).split(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"training"}
    distributions = {MODULES_OF_OTHER_NAMES.get(name, name.lower().replace("_", "-")) for name in foreign}
    assert distributions - pins("requirements.txt").keys() == set()
