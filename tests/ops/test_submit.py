"""Starting and resuming runs: what is applied, what is refused, what is uploaded."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from ops import submit
from ops.__main__ import app
from ops.code_package import package_code
from ops.output import OperationError
from ops.ray_jobs import JobState, JobStatus, RayApi, RayApiError
from ops.submit import next_job

from .fake_cluster import FakeCluster, ray_job


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(submit, "Kubectl", lambda **_: fake)
    fake.add(ray_job("maze-grpo", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED"))
    return fake


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["submit", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_new_run_is_a_rayjob_named_after_it(cluster: FakeCluster) -> None:
    code, output, _ = invoke("--run-id", "second", "--profile", "walkthrough", "--json")
    assert code == 0
    job = cluster.objects["rayjobs.ray.io", "second"]
    assert job["spec"]["entrypoint"] == "python -m training train --run-id second --profile walkthrough"
    assert json.loads(output)["ray_job"] == "second"


def test_the_same_id_resumes_under_the_next_free_name(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo-2", run="maze-grpo", jobDeploymentStatus="Failed"))
    assert invoke("--run-id", "maze-grpo")[0] == 0
    job = cluster.objects["rayjobs.ray.io", "maze-grpo-3"]
    assert job["spec"]["entrypoint"].endswith("--run-id maze-grpo")


def test_a_run_never_has_two_active_jobs(cluster: FakeCluster) -> None:
    cluster.add(ray_job("second", jobDeploymentStatus="Running"))
    before = dict(cluster.objects)
    code, _, error = invoke("--run-id", "second")
    assert code == 1
    assert "is active as RayJob second" in error
    assert cluster.objects == before


def test_a_suspended_job_of_the_deployment_is_not_active(cluster: FakeCluster) -> None:
    cluster.add(ray_job("maze-grpo", jobDeploymentStatus="Suspended"))
    assert invoke("--run-id", "maze-grpo")[0] == 0


@pytest.mark.parametrize("run", ["Big", "1st", "a_b", "a" * 48, "x; rm -rf /"])
def test_an_id_that_cannot_name_a_rayjob_is_refused(cluster: FakeCluster, run: str) -> None:
    code, _, error = invoke("--run-id", run)
    assert code == 1
    assert "at most 47 lower-case letters" in error


def test_without_a_deployed_job_nothing_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = FakeCluster()
    monkeypatch.setattr(submit, "Kubectl", lambda **_: empty)
    code, _, error = invoke("--run-id", "second")
    assert code == 1
    assert "deploy the ray stack" in error


def test_what_the_server_wrote_is_not_copied() -> None:
    job = next_job(ray_job("maze-grpo", jobStatus="FAILED"), name="second", entrypoint="python -m x")
    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    assert job["metadata"] == {
        "name": "second",
        "namespace": "ray",
        "labels": {"app.kubernetes.io/part-of": "maze-grpo"},
    }
    assert "jobId" not in job["spec"]
    assert job["spec"]["suspend"] is False


# --- into the RayCluster that stays ---------------------------------------------------------------------
def session_cluster(*, suspend: bool) -> dict[str, object]:
    return {"kind": "RayCluster", "metadata": {"name": "maze-grpo-session"}, "spec": {"suspend": suspend}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Mock:
    fake = Mock(spec=RayApi, address="http://127.0.0.1:1")
    fake.has_package.return_value = False
    fake.state.return_value = JobState(status=JobStatus.SUCCEEDED, message="done")
    fake.log.return_value = "step 1\n"

    @contextmanager
    def forwarded(*_: object) -> Iterator[Mock]:
        yield fake

    monkeypatch.setattr(submit, "forwarded", forwarded)
    return fake


def test_a_session_job_carries_the_code_and_is_followed(cluster: FakeCluster, api: Mock) -> None:
    cluster.add(session_cluster(suspend=False))
    code, output, _ = invoke("--cluster", "--run-id", "try-1")
    assert code == 0
    assert "uploaded code _ray_pkg_" in output
    assert "step 1" in output
    submitted = api.submit.call_args.kwargs
    assert submitted["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    assert submitted["entrypoint"] == "python -m training train --run-id try-1"


def test_unchanged_code_is_not_uploaded_again(cluster: FakeCluster, api: Mock) -> None:
    cluster.add(session_cluster(suspend=False))
    api.has_package.return_value = True
    assert "unchanged code" in invoke("--cluster", "--run-id", "try-1")[1]
    api.upload_package.assert_not_called()


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.STOPPED])
def test_a_failed_session_job_fails_the_command(cluster: FakeCluster, api: Mock, status: JobStatus) -> None:
    cluster.add(session_cluster(suspend=False))
    api.state.return_value = JobState(status=status, message="exit code 1")
    assert invoke("--cluster", "--run-id", "try-1")[0] == 1


def test_a_refused_submission_is_one_line(cluster: FakeCluster, api: Mock) -> None:
    cluster.add(session_cluster(suspend=False))
    api.submit.side_effect = RayApiError("POST answered 403: Forbidden")
    code, _, error = invoke("--cluster", "--run-id", "try-1")
    assert code == 1
    assert "403" in error


@pytest.mark.parametrize("objects", [[], [session_cluster(suspend=True)]])
def test_a_session_that_is_not_up_is_told(cluster: FakeCluster, objects: list[dict[str, object]]) -> None:
    for item in objects:
        cluster.add(item)
    code, _, error = invoke("--cluster", "--run-id", "try-1")
    assert code == 1
    assert 'ray.active to "session"' in error


def test_a_port_forward_brings_the_secret_s_token_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = b64encode(b"correct-horse").decode()
    fake = FakeCluster()
    fake.add({"kind": "Secret", "metadata": {"name": "maze-grpo-session"}, "data": {"auth_token": token}})
    monkeypatch.setattr(FakeCluster, "command", lambda *_: ["sleep", "600"])
    monkeypatch.setattr(RayApi, "version", lambda _: "2.57.0")
    with submit.forwarded(fake, "maze-grpo-session") as reached:
        assert reached.token == "correct-horse"


def test_a_port_forward_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "command", lambda *_: ["false"])
    with (
        pytest.raises(OperationError, match="cannot be reached by port-forward"),
        submit.forwarded(FakeCluster(), "maze-grpo-session"),
    ):
        pass


def test_the_package_depends_on_content_only(tmp_path: Path) -> None:
    for place in ("a", "b"):
        code = tmp_path / place / "training"
        code.mkdir(parents=True)
        (code / "loop.py").write_text("x = 1\n")
    (tmp_path / "b" / "training" / "__pycache__").mkdir()
    (tmp_path / "b" / "training" / "__pycache__" / "loop.pyc").write_bytes(b"junk")
    first, second = (package_code(tmp_path / place / "training") for place in ("a", "b"))
    assert first == second
    (tmp_path / "b" / "training" / "loop.py").write_text("x = 2\n")
    assert package_code(tmp_path / "b" / "training").name != first.name
