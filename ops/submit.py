"""Starts a training run: a RayJob of its own, or a job in the RayCluster that stays.

A RayJob brings its cluster and takes it along. It is copied from the one that the ray stack deployed, so
image, sizes and mounts are the deployment's. The RayCluster is for iterating: the job carries this working
copy of `training/`, which is uploaded only when its content has changed.
"""

import copy
import re
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from k8s import names
from ops import runs
from ops.code_package import CodePackage, package_code
from ops.kubectl import Json, Kubectl
from ops.output import (
    DEFAULT,
    ContextOption,
    EnvironmentOption,
    JsonOption,
    OperationError,
    emit,
    failures_as_one_line,
    settings_of,
)
from ops.ray_jobs import JobState, JobStatus, RayApi, RayApiError
from ops.rehearse import RAY, ROOT
from stacks.settings import Settings

NAME_CHARACTERS = 47
"""KubeRay appends to a RayJob's name and refuses a longer one."""
RUN_ID = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "finalizers")
FORWARD_SECONDS = 20.0
POLL_SECONDS = 2.0


def submit(
    environment: EnvironmentOption = DEFAULT,
    run_id: Annotated[str | None, typer.Option("--run-id", help="A known id resumes its run.")] = None,
    profile: Annotated[str | None, typer.Option(help="One of training/profiles/.")] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Into the RayCluster that stays.")] = False,
    endpoint: Annotated[
        bool, typer.Option("--endpoint", help="With --cluster: by sagemaker_ray://, not a port-forward.")
    ] = False,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a run, or resume one by its id; with --cluster also follow it to its end.

    Example: python -m ops submit --run-id maze-grpo-2
    """
    with failures_as_one_line():
        settings = settings_of(environment)
        kubectl = Kubectl(context=context, namespace=settings.ray.namespace)
        run = run_id or f"{settings.name}-{datetime.now(UTC):%m%d-%H%M}"
        _check_run_id(run)
        entrypoint = entrypoint_of(run, profile)
        if cluster and endpoint:
            raise typer.Exit(_submit_to_endpoint(settings, entrypoint))
        if cluster:
            raise typer.Exit(_submit_to_cluster(settings, kubectl, run, entrypoint))
        name = submit_ray_job(settings, kubectl, run=run, entrypoint=entrypoint)
    payload = {"run_id": run, "ray_job": name, "namespace": kubectl.namespace, "entrypoint": entrypoint}
    emit(payload, as_json=as_json, show=lambda console: _show(payload, console))


def entrypoint_of(run: str, profile: str | None) -> str:
    """One plain command: KubeRay pastes it unquoted into a shell script."""
    return f"python -m training train --run-id {run}" + (f" --profile {profile}" if profile else "")


def _check_run_id(run: str) -> None:
    if len(run) > NAME_CHARACTERS or not RUN_ID.fullmatch(run):
        raise OperationError(
            f"run id {run!r}: must be at most {NAME_CHARACTERS} lower-case letters, digits and hyphens, "
            "beginning with a letter. Give another --run-id."
        )


def submit_ray_job(settings: Settings, kubectl: Kubectl, *, run: str, entrypoint: str) -> str:
    """Create the run's next RayJob; its name. Raises OperationError while an earlier one is active."""
    earlier = runs.attempts(kubectl, run)
    active = [attempt for attempt in earlier if not (attempt.is_final or attempt.is_suspended)]
    if active:
        raise OperationError(f"run {run} is active as RayJob {active[0].name}: watch it with `ops status`")
    template = kubectl.find(runs.RAY_JOBS, settings.job.run_id)
    if template is None:
        raise OperationError(
            f"no RayJob {settings.job.run_id} to copy in namespace {kubectl.namespace}: deploy the ray stack"
        )
    taken = {item["metadata"]["name"] for item in kubectl.items(runs.RAY_JOBS)}
    manifest = next_job(template, name=_free_name(run, taken), entrypoint=entrypoint)
    kubectl.apply(manifest)
    return str(manifest["metadata"]["name"])


def _free_name(run: str, taken: set[str]) -> str:
    """The run's id, or the id with the first number that is free."""
    if run not in taken:
        return run
    numbered = (f"{run[: NAME_CHARACTERS - 4]}-{number}" for number in range(2, 1000))
    return next(name for name in numbered if name not in taken)


def next_job(template: Json, *, name: str, entrypoint: str) -> dict[str, Any]:
    """A RayJob as the deployed one, with another name and entrypoint, and not suspended."""
    job: dict[str, Any] = copy.deepcopy(dict(template))
    job.pop("status", None)
    metadata = {key: value for key, value in job["metadata"].items() if key not in SERVER_FIELDS}
    annotations = metadata.pop("annotations", {})
    kept = {key: value for key, value in annotations.items() if not key.startswith("kubectl.kubernetes.io/")}
    job["metadata"] = {**metadata, "name": name, **({"annotations": kept} if kept else {})}
    job["spec"] = {**job["spec"], "entrypoint": entrypoint, "suspend": False}
    job["spec"].pop("jobId", None)
    return job


def _show(payload: Json, console: Console) -> None:
    run, name = payload["run_id"], payload["ray_job"]
    console.print(f"run {run} is submitted as RayJob {name}; the same --run-id resumes it", highlight=False)
    console.print(f"    watch:     python -m ops status --run-id {run}")
    console.print(f"    log:       python -m ops logs --follow --run-id {run}")
    kubectl = f"kubectl --namespace {payload['namespace']}"
    cluster = f"$({kubectl} get rayjob {name} --output jsonpath={{.status.rayClusterName}})"
    console.print(f"    dashboard: {kubectl} port-forward service/{cluster}-head-svc {names.DASHBOARD_PORT}")


# --- the RayCluster that stays ----------------------------------------------------------------------------
def _submit_to_endpoint(settings: Settings, entrypoint: str) -> int:
    """By the endpoint operator's address scheme, which AWS's toolkit adds to Ray's own CLI."""
    address = f"sagemaker_ray://{names.session_name(settings.name)}/{settings.ray.namespace}"
    command = [str(RAY), "job", "submit", "--address", address, "--working-dir", str(ROOT), "--"]
    return subprocess.call([*command, *entrypoint.split()])


def _submit_to_cluster(settings: Settings, kubectl: Kubectl, run: str, entrypoint: str) -> int:
    """Submit through a port-forward, follow the log; 0 only when Ray calls the job a success."""
    console = Console(soft_wrap=True)
    session = names.session_name(settings.name)
    cluster = kubectl.find("rayclusters.ray.io", session)
    if cluster is None or cluster["spec"].get("suspend"):
        raise OperationError(
            f'RayCluster {session} is not up: set ray.active to "session" in cdk.json and deploy again'
        )
    with forwarded(kubectl, session) as api:
        package = package_code(ROOT / "training")
        submission_id = f"{run}-{datetime.now(UTC):%H%M%S}"
        try:
            uploaded = upload(api, package)
            api.submit(
                entrypoint=entrypoint,
                submission_id=submission_id,
                runtime_env={"working_dir": package.uri},
            )
        except RayApiError as error:
            raise OperationError(str(error)) from error
        words = f"{'uploaded' if uploaded else 'unchanged'} code {package.name}"
        console.print(f"run {run}: job {submission_id}, {words}; dashboard {api.address}", highlight=False)
        state = follow(api, submission_id, console)
    console.print(f"{state.status}: {state.message}", markup=False, highlight=False)
    return 0 if state.status is JobStatus.SUCCEEDED else 1


def upload(api: RayApi, package: CodePackage) -> bool:
    """Whether it had to be uploaded: Ray keeps a package under the hash of its content."""
    if api.has_package(package.name):
        return False
    api.upload_package(package.name, package.content)
    return True


def follow(api: RayApi, submission_id: str, console: Console) -> JobState:
    """Print the job's log until it ends; its last state."""
    shown = 0
    while True:
        state, log = api.state(submission_id), api.log(submission_id)
        console.out(log[shown:], end="", highlight=False)
        shown = len(log)
        if state.status.is_final:
            return state
        time.sleep(POLL_SECONDS)


@contextmanager
def forwarded(kubectl: Kubectl, session: str) -> Iterator[RayApi]:
    """The session's job API on a local port, for as long as the context lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    secret = kubectl.find("secret", session)
    token = b64decode(secret["data"]["auth_token"]).decode() if secret else None
    arguments = ("port-forward", f"service/{session}-head-svc", f"{port}:{names.DASHBOARD_PORT}")
    with subprocess.Popen(kubectl.command(*arguments), stdout=subprocess.DEVNULL) as forward:
        try:
            api = RayApi(address=f"http://127.0.0.1:{port}", token=token)
            _wait_for(api, forward)
            yield api
        finally:
            forward.terminate()


def _wait_for(api: RayApi, forward: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + FORWARD_SECONDS
    while True:
        try:
            api.version()
        except RayApiError as error:
            if forward.poll() is not None or time.monotonic() > deadline:
                raise OperationError(f"the head cannot be reached by port-forward: {error}") from error
            time.sleep(POLL_SECONDS / 4)
        else:
            return
