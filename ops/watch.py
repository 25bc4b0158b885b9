"""The commands that watch a run: status, logs, report."""

import subprocess
import webbrowser
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ops import runs
from ops.kubectl import Kubectl
from ops.output import (
    DEFAULT,
    ContextOption,
    EnvironmentOption,
    JsonOption,
    emit,
    failures_as_one_line,
    settings_of,
)
from ops.results import read_results
from ops.runs import Attempt, Progress
from stacks.settings import Settings

RunIdOption = Annotated[
    str | None, typer.Option("--run-id", help="The run; job.run_id of cdk.json when left out.")
]
STALE_SECONDS = 3600.0
"""A run that has written nothing for so long is suspected to hang."""


def _connect(environment: str, context: str | None, run_id: str | None) -> tuple[Settings, Kubectl, str]:
    settings = settings_of(environment)
    kubectl = Kubectl(context=context, namespace=settings.ray.namespace)
    return settings, kubectl, run_id or settings.job.run_id


def status(
    environment: EnvironmentOption = DEFAULT,
    run_id: RunIdOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a run does: state, step, age of the last checkpoint, dollars; exit 1 if it failed.

    Example: python -m ops status --run-id maze-grpo
    """
    with failures_as_one_line():
        settings, kubectl, run = _connect(environment, context, run_id)
        found = runs.attempts(kubectl, run)
        newest = runs.newest_attempt(kubectl, run)
        progress = runs.progress(kubectl, newest)
    now = datetime.now(UTC)
    usd = usd_so_far(settings, found, now=now)
    payload = {
        **asdict(newest),
        "attempts": len(found),
        "usd_so_far": round(usd, 2),
        "progress": progress,
    }
    emit(payload, as_json=as_json, show=lambda console: _show(newest, progress, len(found), usd, console))
    raise typer.Exit(1 if newest.is_final and not newest.is_success else 0)


def usd_so_far(settings: Settings, found: list[Attempt], *, now: datetime) -> float:
    """Of the instances while the run's jobs were there; the estimate's prices are those of `cost`."""
    groups = (settings.head_group, settings.worker_group)
    per_hour = sum(group.instance_count * group.type.usd_per_hour for group in groups)
    return per_hour * sum(attempt.hours(now) for attempt in found)


def _show(newest: Attempt, progress: Progress | None, count: int, usd: float, console: Console) -> None:
    state = " ".join(filter(None, (newest.deployment_state, newest.job_state, newest.reason)))
    console.print(
        f"run {newest.run_id}, attempt {count} ({newest.name}): {state or 'not seen by KubeRay yet'}"
    )
    if newest.message:
        console.print(f"    {newest.message}", markup=False)
    if progress is None:
        console.print("    no head is running, so the run's folder cannot be read")
    else:
        for line in _progress_lines(progress):
            console.print(f"    {line}", highlight=False)
    console.print(f"    about ${usd:,.2f} for instances so far", highlight=False)


def _progress_lines(progress: Progress) -> list[str]:
    lines = ["finished: results.json is there"] if progress.finished else []
    if progress.checkpoint_step is None:
        lines.append("no checkpoint yet")
    else:
        age = _age(progress.checkpoint_age_seconds or 0.0)
        lines.append(f"checkpoint of step {progress.checkpoint_step}, {age} ago")
    if progress.solved_share is not None:
        lines.append(f"solved {progress.solved_share:.1%} of that step's training mazes")
    if (progress.last_write_age_seconds or 0.0) > STALE_SECONDS and not progress.finished:
        lines.append(f"nothing written for {_age(progress.last_write_age_seconds or 0.0)}: does it hang?")
    return lines


def _age(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < STALE_SECONDS else f"{seconds / 3600:.1f} h"


def logs(
    environment: EnvironmentOption = DEFAULT,
    run_id: RunIdOption = None,
    context: ContextOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    tail: Annotated[int, typer.Option(min=1, help="Lines to begin with.")] = 200,
) -> None:
    """Print the log of a run's newest job, as the submitter follows it.

    Example: python -m ops logs --follow
    """
    with failures_as_one_line():
        _, kubectl, run = _connect(environment, context, run_id)
        newest = runs.newest_attempt(kubectl, run)
        selector = f"--selector=job-name={newest.name}"
        command = kubectl.command("logs", selector, f"--tail={tail}", *(["--follow"] if follow else []))
    raise typer.Exit(subprocess.call(command))


def report(
    environment: EnvironmentOption = DEFAULT,
    run_id: RunIdOption = None,
    context: ContextOption = None,
    output: Annotated[Path, typer.Option(help="Folder that gets a folder per run.")] = Path("runs"),
    show_it: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch a finished run's results and report; the cluster may be gone already.

    Example: python -m ops report --open
    """
    with failures_as_one_line():
        _, kubectl, run = _connect(environment, context, run_id)
        folder = output.absolute() / run
        folder.mkdir(parents=True, exist_ok=True)
        runs.fetch_report(kubectl, runs.newest_attempt(kubectl, run), folder)
        results = read_results(folder / "results.json")
    page = folder / "report.html"
    headline = results.evaluation
    emit(
        {**results.model_dump(), "report": page},
        as_json=as_json,
        show=lambda console: console.print(
            f"before: {headline.before}\nafter:  {headline.after}\nreport: {page}", highlight=False
        ),
    )
    if show_it:
        webbrowser.open(page.as_uri())
