"""Takes a deployment down in the order in which that works, and proves that nothing is left.

Ray objects go first, while the operator that must remove their finalizers lives; then the stacks, last made
first; then the audit. Every step looks at what is there before it acts, so a teardown that was interrupted or
ran into a limit is continued by the same command.
"""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ops import audit
from ops.aws import Aws
from ops.deployment import stack_names
from ops.kubectl import Kubectl, KubectlError
from ops.leftovers import compute
from ops.leftovers.model import Scope
from ops.output import (
    DEFAULT,
    ContextOption,
    EnvironmentOption,
    JsonOption,
    OperationError,
    YesOption,
    emit,
    failures_as_one_line,
    settings_of,
)
from ops.rehearse import CDK, ROOT, project_environment
from stacks.settings import Settings

RAY_KINDS = (
    "rayjobs.ray.io",
    "rayservices.ray.io",
    "raycronjobs.ray.io",
    "rayclusters.ray.io",
    "raydashboardconnections.connection.access.sagemaker.amazonaws.com",
    "workspaces.workspace.jupyter.org",
)
"""Jobs before clusters: a RayJob would make its cluster anew."""
DRAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a teardown would do now."""

    ray_objects: tuple[str, ...]
    stacks: tuple[str, ...]
    """Last made first, as they will go."""
    unreachable: str = ""
    """Why the Kubernetes cluster could not be asked, if so."""


def plan(settings: Settings, *, scope: Scope, kubectl: Kubectl) -> Plan:
    """Look at what is there; nothing is changed."""
    existing = {name for name, _ in compute.stacks(scope)}
    stacks = tuple(name for name in reversed(stack_names(settings)) if name in existing)
    if f"{settings.name}-ray" not in existing:
        return Plan(ray_objects=(), stacks=stacks)
    try:
        return Plan(ray_objects=tuple(_ray_objects(kubectl)), stacks=stacks)
    except KubectlError as error:
        return Plan(ray_objects=(), stacks=stacks, unreachable=str(error))


def _ray_objects(kubectl: Kubectl) -> Iterator[str]:
    for kind in RAY_KINDS:
        yield from (f"{kind}/{item['metadata']['name']}" for item in kubectl.items(kind))


def drain(kubectl: Kubectl, objects: tuple[str, ...]) -> None:
    """Delete the Ray objects one kind after the other and wait until each is gone."""
    for kind in RAY_KINDS:
        names = [item for item in objects if item.startswith(f"{kind}/")]
        if names:
            limit = f"--timeout={DRAIN_SECONDS:.0f}s"
            kubectl.run("delete", *names, "--ignore-not-found", "--wait", limit, seconds=DRAIN_SECONDS + 30)


def destroy(
    environment: str, *, seconds: float, cdk: Path = CDK, variables: Mapping[str, str] | None = None
) -> None:
    """Destroy all stacks; the CDK knows the order. Its output goes to the terminal."""
    command = [str(cdk), "destroy", "--all", "--force", "--context", f"environment={environment}"]
    try:
        code = subprocess.run(
            command, cwd=ROOT, env=variables or project_environment(), timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise OperationError(
            f"`cdk destroy` is not done after {seconds / 60:.0f} min. CloudFormation goes on by itself: "
            "look at its events, then run the same command again."
        ) from error
    if code != 0:
        raise OperationError(
            f"`cdk destroy` ended with code {code}: its last lines name the resource that would not go. "
            "`python -m ops audit` lists what is left; mend it and run the same command again."
        )


def teardown(
    environment: EnvironmentOption = DEFAULT,
    context: ContextOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    timeout_minutes: Annotated[int, typer.Option(min=1, help="For `cdk destroy`.")] = 120,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop jobs, destroy the stacks, audit; exit 1 unless nothing is left. Run again to go on.

    Example: python -m ops teardown --dry-run
    """
    with failures_as_one_line():
        settings = settings_of(environment)
        scope = Scope(settings=settings, aws=Aws(settings.region))
        kubectl = Kubectl(context=context, namespace=settings.ray.namespace)
        todo = plan(settings, scope=scope, kubectl=kubectl)
        if dry_run:
            emit(todo, as_json=as_json, show=lambda console: _show(todo, console))
            raise typer.Exit(0)
        _confirm(todo, scope, yes=yes)
        _take_down(environment, todo, kubectl, seconds=timeout_minutes * 60)
        found = audit.leftovers(Scope(settings=settings, aws=scope.aws))
    emit(found, as_json=as_json, show=lambda console: audit.show(found, console))
    raise typer.Exit(0 if audit.is_clean(found) else 1)


def _confirm(todo: Plan, scope: Scope, *, yes: bool) -> None:
    _show(todo, Console(stderr=True, soft_wrap=True))
    if todo.unreachable:
        raise OperationError(
            "Ray objects must go while the operator lives, and the cluster cannot be asked: "
            f"{todo.unreachable}. Mend the kubeconfig (`aws eks update-kubeconfig`) or the network first."
        )
    if not yes and (todo.stacks or todo.ray_objects):
        typer.confirm(f"Destroy this in account {scope.aws.account}?", abort=True, err=True)


def _take_down(environment: str, todo: Plan, kubectl: Kubectl, *, seconds: float) -> None:
    drain(kubectl, todo.ray_objects)
    if todo.stacks:
        destroy(environment, seconds=seconds)


def _show(todo: Plan, console: Console) -> None:
    steps = [f"delete {name}" for name in todo.ray_objects] + [f"destroy {name}" for name in todo.stacks]
    for step in steps or ["nothing to delete or destroy"]:
        console.print(step, markup=False, highlight=False)
    console.print("audit what is left", highlight=False)
