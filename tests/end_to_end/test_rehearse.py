"""The whole path on real Ray: settings, manifests, cluster, the entrypoint of the RayJob, a graded result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
SECONDS = 600
"""About two minutes on two idle cores."""


def test_the_smoke_profile_is_graded_and_leaves_nothing_running(tmp_path: Path) -> None:
    marker = {"REHEARSAL_TEST": str(tmp_path)}
    command = [sys.executable, "-m", "ops", "rehearse", "--profile", "smoke", "--seed", "3"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **marker},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    results = json.loads((run / "results.json").read_text())
    assert results["config"]["seed"] == 3
    assert results["config"]["profile"] == "smoke"
    for evaluation in ("before", "after"):
        assert results["evaluation"][evaluation]["total"] == 16
        solved = results["evaluation"][evaluation]["solved"]
        assert f"{evaluation}:".ljust(8) + f"{solved}/16 solved" in done.stdout
    assert (run / "report.html").stat().st_size > 1000
    assert [process.pid for process in psutil.process_iter() if _carries(process, marker)] == []


def _carries(process: psutil.Process, marker: dict[str, str]) -> bool:
    """Whether a process inherited the marker: everything that the command started did."""
    try:
        return marker.items() <= process.environ().items()
    except psutil.Error:
        return False
