"""What each command of docs/operations.md prints, against the same accounts and clusters as the other tests.

`python -m tests.ops.transcripts` writes the outputs into the document; a test compares them.
"""

import json
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from moto import mock_aws
from typer.testing import CliRunner

from ops import audit, preflight, submit, teardown, watch
from ops.__main__ import app

from .aws_stub import StubbedAws
from .fake_cluster import FakeCluster, head_pod, ray_job
from .test_audit import Account, plant_access
from .test_diagnose import HEALTHY, SITUATIONS
from .test_preflight import GOOD
from .test_teardown import deploy
from .test_watch import PROGRESS, RUNNING

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
BLOCK = re.compile(r"^```console\n\$ python -m (ops [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS = "100"


@contextmanager
def situation() -> Iterator[None]:
    """Something for every command to tell."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(), tempfile.TemporaryDirectory() as folder:
        cluster = FakeCluster()
        for module in (submit, teardown, watch):
            patch.setattr(module, "Kubectl", lambda **_: cluster)
        for module in (audit, teardown):
            patch.setattr(module, "Aws", Account)
        patch.setattr(preflight, "Aws", lambda region: StubbedAws(GOOD, region))
        cluster.add(ray_job("maze-grpo", **RUNNING | {"endTime": "2026-12-01T13:30:00Z"}))
        cluster.add(head_pod("maze-grpo-x7k2p"))
        cluster.files["progress"] = json.dumps(PROGRESS)
        deploy("network", "ray")
        plant_access("maze-grpo")
        (Path(folder) / "evidence.json").write_text(json.dumps(evidence()))
        patch.chdir(folder)
        yield


def evidence() -> dict[str, object]:
    """A worker that waits for the file system."""
    seen = next(item for item in SITUATIONS if item["shows"] == ["file-system-mount-failed"])
    return replace(HEALTHY, events=seen["events"]).as_json()


def output_of(command: str) -> str:
    with situation():
        result = CliRunner(env={"COLUMNS": COLUMNS}).invoke(app, shlex.split(command)[1:])
    return "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())


def rewrite(text: str, *, run: Callable[[str], str] = output_of) -> str:
    """The document with every command's present output."""
    return BLOCK.sub(lambda match: f"```console\n$ python -m {match[1]}\n{run(match[1])}```", text)


if __name__ == "__main__":
    DOCUMENT.write_text(rewrite(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
