"""Names the likely cause of what keeps a deployment from working, and the remedy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from ops.aws import Aws
from ops.diagnosis.catalogue import CATALOGUE
from ops.diagnosis.evidence import Evidence, gather
from ops.kubectl import Kubectl
from ops.output import (
    DEFAULT,
    ContextOption,
    EnvironmentOption,
    JsonOption,
    OperationError,
    emit,
    failures_as_one_line,
    plain,
    settings_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A situation of the catalogue that was seen."""

    situation: str
    evidence: tuple[str, ...]
    cause: str
    remedy: str


def diagnoses(evidence: Evidence) -> list[Diagnosis]:
    """All situations seen, causes before consequences: the catalogue goes from hardware to training."""
    seen = ((situation, tuple(situation.look(evidence))) for situation in CATALOGUE)
    return [
        Diagnosis(situation=item.name, evidence=lines, cause=item.cause, remedy=item.remedy)
        for item, lines in seen
        if lines
    ]


def diagnose(
    environment: EnvironmentOption = DEFAULT,
    context: ContextOption = None,
    load: Annotated[
        Path | None, typer.Option("--from", help="Evidence saved earlier, not the cluster.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the evidence to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong, why, and what to do; exit 1 when something is.

    Example: python -m ops diagnose --save evidence.json
    """
    with failures_as_one_line():
        evidence = _read(load) if load else _gather(environment, context)
        if save:
            save.write_text(json.dumps(evidence.as_json(), default=plain, indent=2), encoding="utf-8")
    found = diagnoses(evidence)
    emit(found, as_json=as_json, show=lambda console: show(found, console))
    raise typer.Exit(1 if found else 0)


def _gather(environment: str, context: str | None) -> Evidence:
    settings = settings_of(environment)
    kubectl = Kubectl(context=context, namespace=settings.ray.namespace)
    return gather(settings, aws=Aws(settings.region), kubectl=kubectl)


def _read(path: Path) -> Evidence:
    try:
        return TypeAdapter(Evidence).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise OperationError(f"{path} holds no evidence: write it with --save. {error}") from error


def show(found: list[Diagnosis], console: Console) -> None:
    if not found:
        console.print("nothing of the catalogue is to be seen")
    for diagnosis in found:
        console.print(f"[bold]{diagnosis.situation}[/]: ", end="")
        console.print(diagnosis.cause, markup=False, highlight=False)
        for line in diagnosis.evidence:
            console.print(f"    seen: {line}", markup=False, highlight=False)
        console.print(f"    do:   {diagnosis.remedy}", markup=False, highlight=False)
