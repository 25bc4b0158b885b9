"""The rehearsal around a stand-in for Ray: what it runs, what it collects, when it fails."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from ops import rehearse
from ops.__main__ import app
from ops.local_ray import LocalRay, Options
from ops.processes import ProcessFamily
from ops.ray_jobs import JobState, JobStatus, RayApi
from ops.rehearse import RehearsalError, last_state, ray_job_manifest, run_id, run_job

type Manifest = dict[str, Any]

RESULTS = {
    "run_id": "maze-grpo",
    "evaluation": {
        "before": {"solved": 3, "total": 64, "interval_95": {"low": 0.016, "high": 0.129}},
        "after": {"solved": 41, "total": 64, "interval_95": {"low": 0.518, "high": 0.747}, "ceiling": 64},
    },
}


class JobRunner:
    """Stands for the cluster: a job that writes its results, or does not, and ends as told."""

    def __init__(self, *, status: JobStatus = JobStatus.SUCCEEDED, results: object = RESULTS) -> None:
        self.status = status
        self.results = results
        self.environment: Mapping[str, str] = {}
        self.entrypoint = ""

    @contextmanager
    def local_ray(self, *, manifest: Manifest, options: Options) -> Iterator[LocalRay]:
        assert manifest["kind"] == "RayJob"
        self.environment = options.environment
        api = Mock(spec=RayApi, address="http://127.0.0.1:1")
        api.submit.side_effect = self.submit
        api.state.return_value = JobState(status=self.status, message="exit code 1")
        api.log.return_value = "step 1\nCUDA out of memory\n"
        yield LocalRay(api=api, nodes=[], session=options.logs, family=ProcessFamily())

    def submit(self, *, entrypoint: str, submission_id: str) -> None:
        assert submission_id
        self.entrypoint = entrypoint
        folder = Path(self.environment["SHARED_DIR"]) / "runs" / "maze-grpo"
        folder.mkdir(parents=True)
        if self.results is not None:
            (folder / "results.json").write_text(json.dumps(self.results))
            (folder / "report.html").write_text("<html></html>")


@pytest.fixture
def root(tmp_path: Path, ray_job: Manifest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose `cdk synth` does nothing, and whose manifests of another time still lie about."""
    for folder in ("dist", "rendered"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dist" / "stale-job.k8s.yaml").write_text(yaml.safe_dump(ray_job))
    (tmp_path / "rendered" / "4-job.k8s.yaml").write_text(yaml.safe_dump(ray_job))
    render = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[-1])"
    cdk = tmp_path / "cdk"
    cdk.write_text("#!/bin/sh\n")
    cdk.chmod(0o755)
    monkeypatch.setattr(rehearse, "ROOT", tmp_path)
    monkeypatch.setattr(rehearse, "CDK", cdk)
    monkeypatch.setattr(rehearse, "RAY", cdk)
    monkeypatch.setattr(rehearse, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(rehearse, "RENDER", [sys.executable, "-c", render, str(tmp_path / "rendered")])
    return tmp_path


def run(root: Path, runner: JobRunner, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[int, str]:
    monkeypatch.setattr(rehearse, "local_ray", runner.local_ray)
    result = CliRunner().invoke(app, ["rehearse", "--output", str(root / "runs"), *options])
    return result.exit_code, result.output


def test_results_are_collected_and_the_counts_are_printed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = JobRunner()
    code, output = run(root, runner, monkeypatch, "--profile", "smoke", "--seed", "5")
    assert code == 0, output
    (folder,) = (root / "runs").iterdir()
    assert json.loads((folder / "results.json").read_text()) == RESULTS
    assert (folder / "report.html").is_file()
    assert "3/64 solved (4.7%, 95 % interval 1.6% to 12.9%)" in output
    assert "41/64 solved" in output
    assert runner.entrypoint == "python -m training train --run-id maze-grpo --set seed=5"
    assert runner.environment["TRAINING_PROFILE"] == "smoke"
    assert runner.environment["SHARED_DIR"] == str(folder / "shared")


def test_the_entrypoint_is_the_manifest_s_own_unless_a_seed_is_given(
    root: Path, monkeypatch: pytest.MonkeyPatch, ray_job: Manifest
) -> None:
    runner = JobRunner()
    run(root, runner, monkeypatch)
    assert runner.entrypoint == ray_job["spec"]["entrypoint"]
    assert runner.environment["TRAINING_PROFILE"] == "rehearsal"


def test_a_failed_job_fails_the_rehearsal_and_its_last_lines_are_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = run(root, JobRunner(status=JobStatus.FAILED), monkeypatch)
    assert code == 1
    assert "the job ended as FAILED" in output
    assert "CUDA out of memory" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("results", "message"), [(None, "wrote no"), ({"before": {"solved": 3}}, "is not a run's results")]
)
def test_a_job_that_ends_well_without_results_fails_the_rehearsal(
    root: Path, monkeypatch: pytest.MonkeyPatch, results: object, message: str
) -> None:
    code, output = run(root, JobRunner(results=results), monkeypatch)
    assert code == 1
    assert message in output.replace("\n", " ")


def test_a_job_beyond_its_deadline_fails_the_rehearsal(ray_job: Manifest, tmp_path: Path) -> None:
    runner = JobRunner(status=JobStatus.RUNNING)
    shown: list[str] = []
    options = Options(ray=tmp_path, logs=tmp_path, environment={"SHARED_DIR": str(tmp_path)})
    with (
        pytest.raises(RehearsalError, match=r"ran longer than 0 s; its log: (?s:.*)CUDA out of memory"),
        runner.local_ray(manifest=ray_job, options=options) as ray,
    ):
        run_job(
            ray=ray,
            entrypoint="x",
            log=tmp_path / "job.log",
            deadline_seconds=0,
            console=Console(),
            show_progress=shown.append,
        )
    assert shown == [""]


@pytest.mark.parametrize("tool", ["CDK", "RAY"])
def test_a_missing_tool_is_told_at_once(root: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.setattr(rehearse, tool, root / "absent")
    code, output = run(root, JobRunner(), monkeypatch)
    assert code == 1
    assert "absent is missing: run `make setup`" in output


def test_a_failed_synth_ends_the_rehearsal_with_its_message(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearse.CDK.write_text("#!/bin/sh\necho 'instance_groups.0: no such type' >&2\nexit 1\n")
    code, output = run(root, JobRunner(), monkeypatch)
    assert code == 1
    assert "no such type" in output


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_ray_job_is_rehearsed(tmp_path: Path, ray_job: Manifest, count: int) -> None:
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all([ray_job] * count))
    with pytest.raises(RehearsalError, match=f"holds {count} RayJobs"):
        ray_job_manifest(tmp_path)


@pytest.mark.parametrize("entrypoint", ["python -m training train", "python -m training train --run-id"])
def test_an_entrypoint_without_a_run_is_refused(entrypoint: str) -> None:
    with pytest.raises(RehearsalError, match="--run-id"):
        run_id(entrypoint)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("\rstep 1\rstep 2", "step 2"),
        ("\rstep 2\r   \r", "step 2"),
        ("", ""),
    ],
)
def test_of_a_progress_bar_only_the_last_state_is_shown(line: str, shown: str) -> None:
    assert last_state(line) == shown
