"""Finds what a deployment left behind, by its tag, its VPC and its exact names; deletes it when told to.

Nothing is deleted while one of the deployment's stacks exists: then `teardown` is the command. A resource
without our tag, outside our VPC and with another name is a neighbour's and is never touched.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from botocore.exceptions import ClientError
from rich.console import Console
from rich.table import Table

from ops.aws import Aws, is_gone
from ops.leftovers import access, compute, data, network
from ops.leftovers.model import Kind, Leftover, Scope
from ops.output import (
    DEFAULT,
    EnvironmentOption,
    JsonOption,
    OperationError,
    YesOption,
    emit,
    failures_as_one_line,
    settings_of,
)

KINDS: tuple[Kind, ...] = (*compute.KINDS, *data.KINDS, *network.KINDS, *access.KINDS)
"""In the order in which they can be deleted."""


def leftovers(scope: Scope) -> list[Leftover]:
    """Everything of the deployment that exists now."""
    return [found for kind in KINDS for found in _of_kind(kind, scope)]


def _of_kind(kind: Kind, scope: Scope) -> Iterator[Leftover]:
    kept = kind.is_kept(scope.settings)
    for identifier, evidence in kind.find(scope):
        yield Leftover(kind=kind.name, identifier=identifier, evidence=evidence, kept=kept)


def is_clean(found: list[Leftover]) -> bool:
    """Whether nothing is there but what the settings ask to retain."""
    return all(leftover.kept for leftover in found)


def delete(found: list[Leftover], scope: Scope) -> Iterator[tuple[Leftover, str | None]]:
    """Delete one after the other; yields each with AWS's refusal, or None. Raises while a stack exists."""
    stacks = [leftover.identifier for leftover in found if leftover.kind == "stack"]
    if stacks:
        raise OperationError(
            f"{', '.join(stacks)} still exist: a deployment, no leftovers. Run `python -m ops teardown`."
        )
    deleters = {kind.name: kind.delete for kind in KINDS}
    for leftover in found:
        deleter = deleters[leftover.kind]
        if deleter is not None and not leftover.kept:
            yield leftover, _attempt(deleter, scope, leftover.identifier)


def _attempt(deleter: Callable[[Scope, str], object], scope: Scope, identifier: str) -> str | None:
    try:
        deleter(scope, identifier)
    except ClientError as error:
        # An endpoint takes its interfaces along, so what was listed may have gone meanwhile.
        return None if is_gone(error) else str(error)
    return None


def audit(
    environment: EnvironmentOption = DEFAULT,
    do_delete: Annotated[bool, typer.Option("--delete", help="Delete what was found, after asking.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List what a deployment left behind; exit 1 unless nothing is left.

    Example: python -m ops audit --delete
    """
    with failures_as_one_line():
        settings = settings_of(environment)
        scope = Scope(settings=settings, aws=Aws(settings.region))
        found = leftovers(scope)
        if do_delete and not is_clean(found):
            if not as_json:
                show(found, Console(soft_wrap=True))
            _delete_after_asking(found, scope, yes=yes)
            found = leftovers(Scope(settings=settings, aws=scope.aws))
    emit(found, as_json=as_json, show=lambda console: show(found, console))
    raise typer.Exit(0 if is_clean(found) else 1)


def _delete_after_asking(found: list[Leftover], scope: Scope, *, yes: bool) -> None:
    doomed = sum(not leftover.kept for leftover in found)
    if not yes:
        typer.confirm(f"Delete {doomed} resources in account {scope.aws.account}?", abort=True, err=True)
    console = Console(stderr=True, soft_wrap=True)
    for leftover, refusal in delete(found, scope):
        outcome = "deleted" if refusal is None else f"not deleted: {refusal}"
        console.print(f"{leftover.kind} {leftover.identifier}: {outcome}", markup=False, highlight=False)


def show(found: list[Leftover], console: Console) -> None:
    if not found:
        console.print("nothing is left")
        return
    table = Table("kind", "identifier", "evidence", "", box=None)
    for leftover in found:
        note = "kept: the settings say retain" if leftover.kept else ""
        table.add_row(leftover.kind, leftover.identifier, leftover.evidence, note)
    console.print(table)
    console.print(f"{sum(not leftover.kept for leftover in found)} left", highlight=False)
