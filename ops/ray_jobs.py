"""Ray's HTTP job API, as the KubeRay operator uses it: submit, look, read the log, stop.

Works against a local Ray, a port-forward and a dashboard behind a proxy alike. Token authentication is Ray's
own: `Authorization: Bearer <token>`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import urllib3

REQUEST_SECONDS = 30.0
REASON_CHARACTERS = 2000
OK = 200
PACKAGES = "/api/packages/gcs"


class RayApiError(Exception):
    """The job API refused a request or cannot be reached; the message says which request and why."""


class JobStatus(StrEnum):
    """Ray's own states of a submitted job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        return self in {JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    status: JobStatus
    message: str
    """Ray's explanation, empty while there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayApi:
    """The HTTP API of one Ray cluster's dashboard."""

    address: str
    """Such as http://127.0.0.1:8265, without a slash at the end."""
    token: str | None = None

    def version(self) -> str:
        return str(self._call("GET", "/api/version")["ray_version"])

    def node_count(self) -> int:
        """Nodes that are alive, the head included."""
        answer = self._call(
            "GET", "/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"
        )
        return int(answer["data"]["result"]["num_filtered"])

    def submit(
        self, *, entrypoint: str, submission_id: str, runtime_env: Mapping[str, object] | None = None
    ) -> None:
        """Start a job. Ray refuses an id that it has seen before, so a repeated call cannot start two."""
        body: dict[str, object] = {"entrypoint": entrypoint, "submission_id": submission_id}
        self._call("POST", "/api/jobs/", body | ({"runtime_env": runtime_env} if runtime_env else {}))

    def state(self, submission_id: str) -> JobState:
        answer = self._call("GET", f"/api/jobs/{submission_id}")
        return JobState(status=JobStatus(answer["status"]), message=answer.get("message") or "")

    def log(self, submission_id: str) -> str:
        """The whole log of the job's driver so far."""
        return str(self._call("GET", f"/api/jobs/{submission_id}/logs")["logs"])

    def stop(self, submission_id: str) -> None:
        self._call("POST", f"/api/jobs/{submission_id}/stop")

    def has_package(self, name: str) -> bool:
        """Whether Ray's package store has a package of this name."""
        return self._send("GET", f"{PACKAGES}/{name}").status == OK

    def upload_package(self, name: str, content: bytes) -> None:
        self._expect_ok("PUT", f"{PACKAGES}/{name}", self._send("PUT", f"{PACKAGES}/{name}", content=content))

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        response = self._send(method, path, body=body)
        self._expect_ok(method, path, response)
        try:
            answer: dict[str, Any] = response.json()
        except ValueError as error:
            raise RayApiError(f"{method} {self.address}{path} failed: {error}") from error
        return answer

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        content: bytes | None = None,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            return urllib3.request(
                method,
                self.address + path,
                body=content,
                json=body,
                headers=headers,
                timeout=REQUEST_SECONDS,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise RayApiError(f"{method} {self.address}{path} failed: {error}") from error

    def _expect_ok(self, method: str, path: str, response: urllib3.BaseHTTPResponse) -> None:
        if response.status != OK:
            reason = response.data.decode(errors="replace").strip()[-REASON_CHARACTERS:]
            raise RayApiError(f"{method} {self.address}{path} answered {response.status}: {reason}")
