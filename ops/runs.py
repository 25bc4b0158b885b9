"""Training runs as the cluster knows them: the RayJobs of one run id, and what the run wrote.

KubeRay's status tells how a job ended; the submitter's exit code does not. A run may have several RayJobs:
each submit with the same run id is a new one that resumes from the newest checkpoint.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k8s import names
from ops.kubectl import Json, Kubectl
from ops.output import OperationError

RAY_JOBS = "rayjobs.ray.io"
FINAL_STATES = {"Complete", "Failed", "ValidationFailed"}
READER_SECONDS = 300.0
REPORT_FILES = ("results.json", "report.html")

PROGRESS_SCRIPT = Path(__file__).with_name("read_progress.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the run has written to the shared file system."""

    finished: bool
    checkpoint_step: int | None = None
    checkpoint_age_seconds: float | None = None
    solved_share: float | None = None
    """Of the training mazes in the newest checkpoint's last step."""
    last_write_age_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One RayJob of a run."""

    name: str
    run_id: str
    deployment_state: str
    """KubeRay's word: Initializing, Running, Complete, Failed, Suspended, Retrying, Waiting..."""
    job_state: str
    """Ray's word, empty while there is no job: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED."""
    reason: str
    message: str
    ray_cluster: str
    created: datetime
    started: datetime | None
    ended: datetime | None

    @property
    def is_final(self) -> bool:
        return self.deployment_state in FINAL_STATES

    @property
    def is_suspended(self) -> bool:
        return self.deployment_state == "Suspended"

    @property
    def is_success(self) -> bool:
        return self.job_state == "SUCCEEDED"

    def hours(self, now: datetime) -> float:
        """From its start to its end, or to now."""
        if self.started is None:
            return 0.0
        return ((self.ended or now) - self.started).total_seconds() / 3600


def run_id_of(entrypoint: str) -> str | None:
    """The run that an entrypoint such as `python -m training train --run-id maze-grpo` works on."""
    words = shlex.split(entrypoint)
    return words[words.index("--run-id") + 1] if "--run-id" in words[:-1] else None


def attempts(kubectl: Kubectl, run_id: str) -> list[Attempt]:
    """The RayJobs of a run, oldest first."""
    jobs = (_attempt(job) for job in kubectl.items(RAY_JOBS))
    ours = (job for job in jobs if job.run_id == run_id)
    return sorted(ours, key=lambda attempt: attempt.created)


def newest_attempt(kubectl: Kubectl, run_id: str) -> Attempt:
    """Raises OperationError when the cluster has no RayJob of the run."""
    found = attempts(kubectl, run_id)
    if not found:
        raise OperationError(f"no RayJob of run {run_id} in namespace {kubectl.namespace}: submit it first")
    return found[-1]


def _attempt(job: Json) -> Attempt:
    status: Mapping[str, Any] = job.get("status", {})
    return Attempt(
        name=job["metadata"]["name"],
        run_id=run_id_of(job["spec"].get("entrypoint", "")) or "",
        deployment_state=status.get("jobDeploymentStatus", ""),
        job_state=status.get("jobStatus", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        ray_cluster=status.get("rayClusterName", ""),
        created=_time(job["metadata"]["creationTimestamp"]),
        started=_time_or_none(status.get("startTime")),
        ended=_time_or_none(status.get("endTime")),
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _time_or_none(text: str | None) -> datetime | None:
    return _time(text) if text else None


def run_path(run_id: str) -> str:
    return f"{names.SHARED_DIR}/runs/{run_id}"


def progress(kubectl: Kubectl, attempt: Attempt) -> Progress | None:
    """Read through the head; None while there is no head to ask."""
    head = _head_pod(kubectl, attempt.ray_cluster)
    if head is None:
        return None
    answer = kubectl.run(
        "exec", head, "--", "python", "-c", PROGRESS_SCRIPT.read_text(), run_path(attempt.run_id)
    )
    return Progress(**json.loads(answer))


def _head_pod(kubectl: Kubectl, ray_cluster: str) -> str | None:
    if not ray_cluster:
        return None
    selector = f"--selector=ray.io/cluster={ray_cluster},ray.io/node-type=head"
    running = [
        pod for pod in kubectl.items("pods", selector) if pod.get("status", {}).get("phase") == "Running"
    ]
    return str(running[0]["metadata"]["name"]) if running else None


def fetch_report(kubectl: Kubectl, attempt: Attempt, folder: Path) -> None:
    """Copy results.json and report.html into a folder. Raises OperationError when the run wrote none."""
    with _pod_with_files(kubectl, attempt) as pod:
        for name in REPORT_FILES:
            path = f"{run_path(attempt.run_id)}/{name}"
            content = kubectl.run("exec", pod, "--", "cat", path)
            (folder / name).write_text(content, encoding="utf-8")


@contextmanager
def _pod_with_files(kubectl: Kubectl, attempt: Attempt) -> Iterator[str]:
    """The run's head, or for a run whose cluster is gone a small pod for as long as it is needed."""
    head = _head_pod(kubectl, attempt.ray_cluster)
    if head is not None:
        yield head
        return
    name = f"read-{attempt.name}"
    job = kubectl.find(RAY_JOBS, attempt.name)
    if job is None:
        raise OperationError(f"RayJob {attempt.name} is gone, and with it the image to read its files by")
    kubectl.apply(reader_pod(name=name, job=job))
    try:
        wait = f"--timeout={READER_SECONDS:.0f}s"
        kubectl.run("wait", "--for=condition=Ready", f"pod/{name}", wait, seconds=READER_SECONDS + 10)
        yield name
    finally:
        kubectl.run("delete", "pod", name, "--ignore-not-found", "--wait=false")


def reader_pod(*, name: str, job: Json) -> dict[str, Any]:
    """A pod on the head's nodes that mounts the shared file system read-only and ends by itself."""
    template = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    container = template["containers"][0]
    kept = (
        "nodeSelector",
        "tolerations",
        "securityContext",
        "serviceAccountName",
        "automountServiceAccountToken",
    )
    mount = {"name": names.CLAIM, "mountPath": names.SHARED_DIR, "readOnly": True}
    reader = {
        "name": "reader",
        "image": container["image"],
        "command": ["sleep", f"{READER_SECONDS:.0f}"],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": container.get("securityContext", {}),
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "volumeMounts": [mount],
    }
    claim = {"name": names.CLAIM, "persistentVolumeClaim": {"claimName": names.CLAIM}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            **{key: template[key] for key in kept if key in template},
            "restartPolicy": "Never",
            "containers": [reader],
            "volumes": [claim],
        },
    }
