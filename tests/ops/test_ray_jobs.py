"""The job API's client, against a server that answers as Ray's dashboard does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from ops.ray_jobs import JobState, JobStatus, RayApi, RayApiError

TOKEN = "correct-horse"
ANSWERS: dict[tuple[str, str], tuple[int, Any]] = {
    ("GET", "/api/version"): (200, {"version": "4", "ray_version": "2.57.0"}),
    ("GET", "/api/jobs/run-1"): (200, {"status": "FAILED", "message": "exit code 1"}),
    ("GET", "/api/jobs/run-2"): (200, {"status": "RUNNING", "message": None}),
    ("GET", "/api/jobs/run-1/logs"): (200, {"logs": "step 1\nstep 2\n"}),
    ("POST", "/api/jobs/"): (200, {"submission_id": "run-1"}),
    ("POST", "/api/jobs/run-1/stop"): (200, {"stopped": True}),
    ("GET", "/api/jobs/twice"): (500, "Job with submission_id twice already exists"),
    ("GET", "/api/jobs/proxy"): (200, "<html>sign in</html>"),
    ("GET", "/api/packages/gcs/_ray_pkg_known.zip"): (200, {}),
    ("PUT", "/api/packages/gcs/_ray_pkg_new.zip"): (200, {}),
}


class Dashboard(BaseHTTPRequestHandler):
    requests: list[tuple[str, str, Any]] = []  # noqa: RUF012 - reset by every test through `dashboard`

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_json = self.headers.get("Content-Type") == "application/json"
        self.requests.append((self.command, self.path, json.loads(body) if is_json else body or None))
        status, answer = ANSWERS.get((self.command, self.path), (404, "no such route"))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status, answer = 401, "Unauthorized"
        payload = answer if isinstance(answer, str) else json.dumps(answer)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(payload.encode())

    do_GET = do_POST = do_PUT = answer

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def dashboard() -> Iterator[str]:
    Dashboard.requests = []
    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def api() -> Iterator[RayApi]:
    with dashboard() as address:
        yield RayApi(address=address, token=TOKEN)


def test_a_job_is_submitted_under_the_caller_s_id(api: RayApi) -> None:
    api.submit(entrypoint="python -m training train", submission_id="run-1")
    body = {"entrypoint": "python -m training train", "submission_id": "run-1"}
    assert Dashboard.requests == [("POST", "/api/jobs/", body)]


def test_state_log_stop_and_version_are_read(api: RayApi) -> None:
    assert api.state("run-1") == JobState(status=JobStatus.FAILED, message="exit code 1")
    assert api.state("run-2") == JobState(status=JobStatus.RUNNING, message="")
    assert api.log("run-1") == "step 1\nstep 2\n"
    assert api.version() == "2.57.0"
    api.stop("run-1")
    assert Dashboard.requests[-1][:2] == ("POST", "/api/jobs/run-1/stop")


@pytest.mark.parametrize(
    ("submission_id", "reason"),
    [
        ("twice", "answered 500: Job with submission_id twice"),
        ("proxy", "failed"),
        ("unknown", "answered 404"),
    ],
)
def test_a_refusal_says_which_request_failed_and_why(api: RayApi, submission_id: str, reason: str) -> None:
    with pytest.raises(RayApiError, match=f"/api/jobs/{submission_id} {reason}"):
        api.state(submission_id)


def test_a_wrong_token_is_reported(api: RayApi) -> None:
    with pytest.raises(RayApiError, match="401"):
        RayApi(address=api.address, token="wrong").version()


def test_an_address_without_a_dashboard_is_reported() -> None:
    with dashboard() as address:
        pass
    with pytest.raises(RayApiError, match="failed"):
        RayApi(address=address).version()


def test_code_is_uploaded_under_the_name_of_its_content(api: RayApi) -> None:
    assert api.has_package("_ray_pkg_known.zip")
    assert not api.has_package("_ray_pkg_new.zip")
    api.upload_package("_ray_pkg_new.zip", b"PK\x03\x04")
    assert Dashboard.requests[-1] == ("PUT", "/api/packages/gcs/_ray_pkg_new.zip", b"PK\x03\x04")
    with pytest.raises(RayApiError, match="404"):
        api.upload_package("_ray_pkg_other.zip", b"PK")


def test_a_job_may_carry_its_code(api: RayApi) -> None:
    api.submit(entrypoint="x", submission_id="run-1", runtime_env={"working_dir": "gcs://p.zip"})
    assert Dashboard.requests[-1][2]["runtime_env"] == {"working_dir": "gcs://p.zip"}


def test_only_final_states_are_final() -> None:
    final = {status for status in JobStatus if status.is_final}
    assert final == {JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED}
