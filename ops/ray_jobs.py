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

    def submit(self, *, entrypoint: str, submission_id: str) -> None:
        """Start a job. Ray refuses an id that it has seen before, so a repeated call cannot start two."""
        self._call("POST", "/api/jobs/", {"entrypoint": entrypoint, "submission_id": submission_id})

    def state(self, submission_id: str) -> JobState:
        answer = self._call("GET", f"/api/jobs/{submission_id}")
        return JobState(status=JobStatus(answer["status"]), message=answer.get("message") or "")

    def log(self, submission_id: str) -> str:
        """The whole log of the job's driver so far."""
        return str(self._call("GET", f"/api/jobs/{submission_id}/logs")["logs"])

    def stop(self, submission_id: str) -> None:
        self._call("POST", f"/api/jobs/{submission_id}/stop")

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        url = self.address + path
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            response = urllib3.request(
                method, url, json=body, headers=headers, timeout=REQUEST_SECONDS, retries=False
            )
            answer: dict[str, Any] = response.json() if response.status == 200 else {}
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise RayApiError(f"{method} {url} failed: {error}") from error
        if response.status != 200:
            reason = response.data.decode(errors="replace").strip()[-REASON_CHARACTERS:]
            raise RayApiError(f"{method} {url} answered {response.status}: {reason}")
        return answer
