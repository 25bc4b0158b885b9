"""`python -m k8s` renders without AWS and refuses bad settings with one line."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from k8s.__main__ import app

KINDS = ["Namespace", "PersistentVolume", "PersistentVolumeClaim", "RayCluster", "RayJob"]


@pytest.mark.parametrize("environment", ["walkthrough", "small"])
def test_stdout_and_folder_hold_the_same(environment: str, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["--environment", environment])
    written = CliRunner().invoke(app, ["--environment", environment, "--output", str(tmp_path)])
    assert (printed.exit_code, written.exit_code) == (0, 0), printed.stderr + written.stderr
    assert printed.stdout == "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    kinds = [document["kind"] for document in yaml.safe_load_all(printed.stdout)]
    assert [kind for kind in kinds if kind in KINDS] == KINDS


def test_what_a_deployment_knows_can_be_given() -> None:
    result = CliRunner().invoke(app, ["--image", "registry.example/mine:7", "--mount-name", "zyxwvuts"])
    assert "image: registry.example/mine:7" in result.stdout
    assert "mountname: zyxwvuts" in result.stdout


def test_an_unknown_environment_ends_with_a_remedy() -> None:
    result = CliRunner().invoke(app, ["--environment", "nope"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Use one of: small, walkthrough." in result.stderr
