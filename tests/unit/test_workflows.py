"""What the workflows run exists, and no change's own code runs where something may be written."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_run_exists(path: Path) -> None:
    lines = " ".join(step.get("run", "") for step in steps(path))
    assert set(re.findall(r"\bmake ([a-z-]+)", lines)) <= TARGETS
    assert set(re.findall(r"-m ops ([a-z]+)", lines)) <= {command.__name__ for command in COMMANDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_pull_requests_code_meets_no_credentials(path: Path) -> None:
    triggers = yaml.safe_load(path.read_text())[True]  # YAML 1.1 reads `on` as true
    for job in jobs(path).values():
        writes = "write" in job["permissions"].values()
        runs_code = any("checkout" in step.get("uses", "") for step in job["steps"])
        asks_a_person = "environment" in job and "pull_request" not in triggers
        assert not (writes and runs_code) or asks_a_person


def test_the_document_names_the_label_that_the_workflow_reads() -> None:
    (workflow,) = (path.read_text() for path in FILES if path.stem == "review")
    label = re.search(r"labels\.\*\.name, '([a-z-]+)'", workflow)
    assert label
    assert f"the label `{label[1]}`" in (ROOT / "docs" / "review.md").read_text()
