"""status, logs and report of a run, against a cluster in memory."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from ops import runs, watch
from ops.__main__ import app
from ops.output import OperationError
from ops.read_progress import read_progress
from stacks.settings import load_settings

from .fake_cluster import FakeCluster, head_pod, ray_job
from .test_rehearse import RESULTS

RUNNING = {
    "jobDeploymentStatus": "Running",
    "jobStatus": "RUNNING",
    "rayClusterName": "maze-grpo-x7k2p",
    "startTime": "2026-12-01T10:00:00Z",
}
FAILED = {
    "jobDeploymentStatus": "Failed",
    "jobStatus": "FAILED",
    "reason": "AppFailed",
    "startTime": "2026-12-01T06:00:00Z",
    "endTime": "2026-12-01T08:00:00Z",
}
PROGRESS = {
    "finished": False,
    "checkpoint_step": 40,
    "checkpoint_age_seconds": 300.0,
    "solved_share": 0.625,
    "last_write_age_seconds": 20.0,
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(watch, "Kubectl", lambda **_: fake)
    return fake


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_running_run_shows_state_step_checkpoint_and_dollars(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo", **RUNNING))
    cluster.add(head_pod("maze-grpo-x7k2p"))
    cluster.files["progress"] = json.dumps(PROGRESS)
    result = invoke("status")
    assert result.exit_code == 0, result.output
    assert "attempt 1 (maze-grpo): Running RUNNING" in result.stdout
    assert "checkpoint of step 40, 5 min ago" in result.stdout
    assert "solved 62.5%" in result.stdout
    assert "$" in result.stdout
    assert "hang" not in result.stdout


def test_a_silent_run_is_suspected_to_hang(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo", **RUNNING))
    cluster.add(head_pod("maze-grpo-x7k2p"))
    cluster.files["progress"] = json.dumps(PROGRESS | {"last_write_age_seconds": 7300.0})
    assert "nothing written for 2.0 h" in invoke("status").stdout


def test_a_failed_run_fails_the_command_and_gives_the_reason(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo", **FAILED))
    result = invoke("status", "--json")
    assert result.exit_code == 1
    payload = json.loads(result.stdout)
    assert (payload["reason"], payload["progress"], payload["attempts"]) == ("AppFailed", None, 1)


def test_the_newest_attempt_counts_and_all_of_them_cost(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo-2", run="maze-grpo", created="2026-12-01T09:00:00Z", **RUNNING))
    cluster.add(ray_job("maze-grpo", **FAILED, created="2026-12-01T06:00:00Z"))
    cluster.add(ray_job("other", **FAILED))
    found = runs.attempts(cluster, "maze-grpo")
    assert [attempt.name for attempt in found] == ["maze-grpo", "maze-grpo-2"]
    now = datetime(2026, 12, 1, 11, tzinfo=UTC)
    usd = watch.usd_so_far(load_settings(), found, now=now)
    assert usd == pytest.approx((2 + 1) * (3 * 8.28608 + 4.608))
    assert invoke("status").exit_code == 0


def test_a_run_that_nobody_submitted_is_told(cluster: FakeCluster) -> None:
    result = invoke("status", "--run-id", "nothing")
    assert result.exit_code == 1
    assert "submit it first" in result.stderr


def test_the_report_of_a_running_cluster_is_fetched_through_the_head(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.add(ray_job("maze-grpo", **RUNNING))
    cluster.add(head_pod("maze-grpo-x7k2p"))
    write_report(cluster)
    result = invoke("report", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "41/64 solved" in result.stdout
    assert (tmp_path / "maze-grpo" / "report.html").read_text() == "<html></html>"
    assert not any(call[0] == "apply" for call in cluster.calls)


def write_report(cluster: FakeCluster) -> None:
    cluster.files["/shared/runs/maze-grpo/results.json"] = json.dumps(RESULTS)
    cluster.files["/shared/runs/maze-grpo/report.html"] = "<html></html>"


def test_after_the_cluster_went_a_reader_pod_fetches_the_report_and_goes(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.add(ray_job("maze-grpo", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED"))
    write_report(cluster)
    assert invoke("report", "--output", str(tmp_path)).exit_code == 0
    assert any(call[0] == "apply" for call in cluster.calls)
    assert not [key for key in cluster.objects if key[0] == "pods"]


def test_the_reader_goes_even_when_the_run_wrote_nothing(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.add(ray_job("maze-grpo", **FAILED))
    result = invoke("report", "--output", str(tmp_path))
    assert result.exit_code == 1
    assert "results.json: No such file" in result.stderr
    assert not [key for key in cluster.objects if key[0] == "pods"]


def test_the_reader_has_the_run_s_image_and_only_reads() -> None:
    pod = runs.reader_pod(name="r", job=ray_job("maze-grpo"))
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example/training:1"
    assert container["volumeMounts"][0]["readOnly"] is True
    assert pod["spec"]["nodeSelector"] == {"group": "cpu-head"}


def test_logs_follow_the_submitter_of_the_newest_job(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(ray_job("maze-grpo", **RUNNING))
    call = Mock(return_value=0)
    monkeypatch.setattr(FakeCluster, "command", lambda _, *words: ["kubectl", *words])
    monkeypatch.setattr("subprocess.call", call)
    assert invoke("logs", "--follow").exit_code == 0
    words = ["kubectl", "logs", "--selector=job-name=maze-grpo", "--tail=200", "--follow"]
    call.assert_called_once_with(words)


def test_without_a_rayjob_there_is_no_newest_attempt(cluster: FakeCluster) -> None:
    with pytest.raises(OperationError, match="no RayJob of run x"):
        runs.newest_attempt(cluster, "x")


# --- the script that runs on the head -------------------------------------------------------------------
def checkpoint(run: Path, step: int, *, age: float, now: float) -> None:
    path = run / "checkpoints" / f"global_step_{step}"
    path.mkdir(parents=True)
    os.utime(path, (now - age, now - age))


def test_progress_is_that_of_the_highest_checkpoint_by_number_and_of_the_last_step(tmp_path: Path) -> None:
    now = 1_000_000.0
    checkpoint(tmp_path, 9, age=90, now=now)
    checkpoint(tmp_path, 10, age=30, now=now)
    progress = tmp_path / "progress.json"
    progress.write_text(json.dumps({"steps": [{"solved_share": 0.2}, {"solved_share": 0.3}]}))
    os.utime(progress, (now - 5, now - 5))
    assert read_progress(tmp_path, now=now) == {
        "finished": False,
        "checkpoint_step": 10,
        "checkpoint_age_seconds": 30.0,
        "solved_share": 0.3,
        "last_write_age_seconds": 5.0,
    }


def test_a_finished_run_without_steps_is_told_apart(tmp_path: Path) -> None:
    checkpoint(tmp_path, 40, age=60, now=1000.0)
    (tmp_path / "results.json").write_text("{}")
    found = read_progress(tmp_path, now=1000.0)
    assert (found["checkpoint_step"], found["finished"], "solved_share" in found) == (40, True, False)


def test_a_run_that_has_written_nothing_has_no_ages(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "none", now=0.0) == {"finished": False}
