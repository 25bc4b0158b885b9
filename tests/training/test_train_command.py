"""The whole job as a user starts it: a real Ray and SkyRL's own trainer, on the smoke profile."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from training.checkpoints import MARKER
from training.config import load_config, parse_config

ROOT = Path(__file__).parent.parent.parent
# Ray refuses socket paths over 107 characters, which pytest's temporary folders can reach.
ENVIRONMENT = {
    **{
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RAY_", "TRAINING_", "SHARED_"))
    },
    "OMP_NUM_THREADS": "1",
    "RAY_TMPDIR": "/tmp",
}
# A quiet machine needs a minute for a run; a shared one has needed eight.
DEADLINE_SECONDS = 900


def command(shared, run_id, *arguments):
    base = [sys.executable, "-m", "training", "train", "--run-id", run_id, "--shared-dir", str(shared)]
    return [*base, "--profile", "smoke", *arguments]


def train(shared, run_id, *arguments):
    return subprocess.run(
        command(shared, run_id, *arguments),
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def results_of(shared, run_id):
    return json.loads((shared / "runs" / run_id / "results.json").read_text())


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def finished(shared):
    run = train(shared, "finished")
    assert run.returncode == 0, run.stderr
    return run


def test_a_run_is_graded_before_and_after_and_reported(shared, finished):
    results = results_of(shared, "finished")
    for moment in ("before", "after"):
        assert f"{results['evaluation'][moment]['solved']}/16 solved" in finished.stdout
    assert len(results["progress"]["steps"]) == 2
    assert any(step["gradient_norm"] > 0 for step in results["progress"]["steps"])
    assert "<svg" in (shared / "runs" / "finished" / "report.html").read_text()


def test_a_finished_run_is_not_run_again(shared, finished):
    again = train(shared, "finished")
    assert again.returncode == 0
    assert "has finished before" in again.stdout


def test_a_terminated_run_goes_on_where_it_was_and_ends_as_if_undisturbed(shared, finished):
    """The same mazes and the same draws, whether or not the run was cut in two."""
    process = subprocess.Popen(
        command(shared, "cut"),
        cwd=ROOT,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    first = shared / "runs" / "cut" / "checkpoints" / "global_step_1" / MARKER
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not first.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143
    assert re.search("step [12] is kept; run the same command again to go on", stderr)
    assert not (shared / "runs" / "cut" / "results.json").exists()

    assert train(shared, "cut").returncode == 0
    cut, whole = (results_of(shared, run_id)["progress"] for run_id in ("cut", "finished"))
    assert cut["resumed_from"] in ([1], [2])
    assert [evaluation["step"] for evaluation in cut["evaluations"]] == [0, 2]
    assert [step["step"] for step in cut["steps"]] == [1, 2]
    for name in ("mean_turns", "mean_reward", "loss"):
        measured = [[step[name] for step in progress["steps"]] for progress in (cut, whole)]
        assert measured[0] == pytest.approx(measured[1], rel=0.05, abs=1e-3)


def test_a_dry_run_prints_the_resolved_config_and_touches_nothing(shared):
    run = train(shared, "dry", "--dry-run", "--set", "seed=4")
    assert run.returncode == 0
    resolved, skyrl = yaml.safe_load_all(run.stdout)
    assert skyrl["trainer"]["seed"] == 4
    assert parse_config(resolved) == load_config("smoke", overrides={"seed": 4})
    assert not (shared / "runs" / "dry").exists()


def test_a_dry_run_of_the_walkthrough_shows_what_it_needs_and_what_skyrl_accepts(shared):
    run = train(shared, "dry", "--dry-run", "--profile", "walkthrough")
    assert run.returncode == 0
    resolved, needs, skyrl = yaml.safe_load_all(run.stdout)
    assert parse_config(resolved) == load_config("walkthrough")
    assert needs["needs_at_least"]["conversation_tokens"] <= resolved["trainer"]["max_input_tokens"]
    assert skyrl["generator"]["inference_engine"]["num_engines"] == 6
    assert skyrl["trainer"]["resume_mode"] == "latest"


def test_a_wrong_choice_ends_in_a_line_before_any_work(shared):
    run = train(shared, "wrong", "--set", "maze.size=8")
    assert run.returncode == 2
    assert run.stderr.strip() == "maze.size = 8: must be odd. Use 7 or 9."
    assert not (shared / "runs" / "wrong").exists()
