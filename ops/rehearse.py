"""The main job on this machine: synthesize, start Ray from the manifests, run the RayJob's entrypoint, grade.

The same manifests, entrypoint and code as on HyperPod; `ops.local_ray` says what is stood in. The job gets a
small profile and a folder of this machine as its shared file system.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ops.local_ray import LocalRay, LocalRayError, Options, local_ray
from ops.processes import ProcessFamily
from ops.ray_jobs import JobStatus, RayApiError
from ops.results import Results, ResultsError, read_results
from ops.runs import run_id_of

ROOT = Path(__file__).parent.parent
CDK = ROOT / "node_modules" / ".bin" / "cdk"
RAY = ROOT / ".venv-training" / "bin" / "ray"
RENDER = [sys.executable, "-m", "k8s"]
PROFILE = "rehearsal"
POLL_SECONDS = 1.0
TAIL_LINES = 25
GIB = 2**30


class RehearsalError(Exception):
    """The rehearsal cannot go on; the message says what failed and where to look."""


@dataclass(slots=True)
class Account:
    """What each step took, for the closing lines."""

    console: Console
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    peak_rss_bytes: int = 0

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Show the step while it runs, and its time afterwards; the callable shows how far it is."""
        started = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        ) as progress:
            task = progress.add_task(name, total=None)
            yield lambda state: progress.update(task, description=f"{name} {state}".rstrip())
        self.seconds[name] = time.monotonic() - started
        self.console.print(f"{name}: {self.seconds[name]:.0f} s", highlight=False)

    def note_memory(self, family: ProcessFamily) -> None:
        self.peak_memory_bytes = max(self.peak_memory_bytes, family.peak_memory_bytes)
        self.peak_rss_bytes = max(self.peak_rss_bytes, family.peak_rss_bytes)


def rehearse(
    environment: Annotated[str, typer.Option(help="Environment of cdk.json.")] = "walkthrough",
    profile: Annotated[str, typer.Option(help="One of training/profiles/.")] = PROFILE,
    seed: Annotated[int | None, typer.Option(min=0, help="Replaces the profile's seed.")] = None,
    output: Annotated[Path, typer.Option(help="Folder that gets a folder per run.")] = Path("runs"),
    deadline_minutes: Annotated[int, typer.Option(min=1, help="The job is stopped after that long.")] = 30,
) -> None:
    """Run the main job on this machine, on the manifests of an environment, and grade it.

    Example: python -m ops rehearse --seed 1
    """
    console = Console()
    run = output.absolute() / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    account = Account(console)
    try:
        run.mkdir(parents=True)
        results = _rehearse(
            environment=environment,
            profile=profile,
            seed=seed,
            run=run,
            deadline_seconds=deadline_minutes * 60,
            account=account,
        )
    except (RehearsalError, LocalRayError, RayApiError, ResultsError) as error:
        console.print(Text.assemble(("rehearsal failed: ", "bold red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from None
    _conclude(results=results, run=run, account=account)


def _rehearse(
    *,
    environment: str,
    profile: str,
    seed: int | None,
    run: Path,
    deadline_seconds: float,
    account: Account,
) -> Results:
    for tool in (CDK, RAY):
        if not tool.exists():
            raise RehearsalError(f"{tool} is missing: run `make setup`")
    with account.step("synthesize the stacks (cdk.out)"):
        synth = [str(CDK), "synth", "--quiet", "--context", f"environment={environment}"]
        _command(synth, log=run / "synth.log", account=account)
    with account.step("render the manifests (dist)"):
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        render = [*RENDER, "--environment", environment, "--output", str(ROOT / "dist")]
        _command(render, log=run / "manifests.log", account=account)
    manifest = ray_job_manifest(ROOT / "dist")
    shared = run / "shared"
    for folder in (shared, run / "ray"):
        folder.mkdir()
    options = Options(
        ray=RAY,
        logs=run / "ray",
        environment={"TRAINING_PROFILE": profile, "SHARED_DIR": str(shared), "PYTHONPATH": str(ROOT)},
    )
    entrypoint = manifest["spec"]["entrypoint"] + ("" if seed is None else f" --set seed={seed}")
    with ExitStack() as cluster:
        with account.step("start Ray: the head, then each worker"):
            ray = cluster.enter_context(local_ray(manifest=manifest, options=options))
        cluster.callback(account.note_memory, ray.family)
        with account.step("run the job") as show_progress:
            run_job(
                ray=ray,
                entrypoint=entrypoint,
                log=run / "job.log",
                deadline_seconds=deadline_seconds,
                console=account.console,
                show_progress=show_progress,
            )
    return collect(shared=shared, entrypoint=entrypoint, run=run)


def _command(arguments: Sequence[str], *, log: Path, account: Account) -> None:
    """Run a command of this repository to its end; its output goes to the log."""
    with ProcessFamily() as family:
        process = family.start(arguments, environment=project_environment(), log=log)
        code = process.wait()
    account.note_memory(family)
    if code != 0:
        raise RehearsalError(f"`{shlex.join(arguments)}` ended with code {code}:\n{tail(log)}")


def project_environment() -> dict[str, str]:
    """The environment of people's shells, with this project's Node first on the path (jsii needs it)."""
    return {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def ray_job_manifest(folder: Path) -> dict[str, Any]:
    """The one RayJob among the rendered manifests."""
    documents = [
        document
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    jobs = [document for document in documents if document and document["kind"] == "RayJob"]
    if len(jobs) != 1:
        raise RehearsalError(
            f"{folder} holds {len(jobs)} RayJobs; one is needed: render it with `python -m k8s`"
        )
    job: dict[str, Any] = jobs[0]
    return job


def run_job(
    *,
    ray: LocalRay,
    entrypoint: str,
    log: Path,
    deadline_seconds: float,
    console: Console,
    show_progress: Callable[[str], None],
) -> None:
    """Submit the entrypoint and follow its log to the end; raises unless Ray calls the job a success."""
    submission_id = "rehearsal"
    ray.api.submit(entrypoint=entrypoint, submission_id=submission_id)
    console.print(f"{ray.api.address} runs: {entrypoint}", highlight=False)
    deadline = time.monotonic() + deadline_seconds
    shown = ""
    while True:
        state = ray.api.state(submission_id)
        text = ray.api.log(submission_id)
        log.write_text(text, encoding="utf-8")
        shown = _show_new_lines(text, shown=shown, console=console)
        show_progress(last_state(text[len(shown) :]))
        if state.status.is_final:
            break
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"the job ran longer than {deadline_seconds:.0f} s; its log: {log}\n{tail(log)}"
            )
        time.sleep(POLL_SECONDS)
    if state.status is not JobStatus.SUCCEEDED:
        raise RehearsalError(f"the job ended as {state.status}; its log: {log}\n{state.message or tail(log)}")


def _show_new_lines(text: str, *, shown: str, console: Console) -> str:
    """Print the complete lines beyond what was shown; returns what is shown now."""
    complete = text[: text.rfind("\n") + 1]
    for line in complete[len(shown) :].split("\n")[:-1]:
        console.print(Text.from_ansi(f"  {last_state(line)}"), soft_wrap=True)
    return complete


def last_state(line: str) -> str:
    """What a terminal would show of a line that a progress bar wrote over and over."""
    return next((state for state in reversed(line.split("\r")) if state.strip()), "")


def run_id(entrypoint: str) -> str:
    """Raises RehearsalError when the entrypoint names no run."""
    found = run_id_of(entrypoint)
    if found is None:
        raise RehearsalError(f"the entrypoint `{entrypoint}` names no run: it needs `--run-id <id>`")
    return found


def collect(*, shared: Path, entrypoint: str, run: Path) -> Results:
    """Copy the report and the results of the run that the entrypoint names out of the shared folder."""
    source = shared / "runs" / run_id(entrypoint)
    for name in ("report.html", "results.json"):
        if not (source / name).is_file():
            raise RehearsalError(
                f"the job ended well but wrote no {source / name}; its log: {run / 'job.log'}"
            )
        shutil.copy2(source / name, run / name)
    return read_results(run / "results.json")


def tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])


def _conclude(*, results: Results, run: Path, account: Account) -> None:
    console = account.console
    console.print()
    console.print(f"before: {results.evaluation.before}", highlight=False)
    console.print(f"after:  {results.evaluation.after}", highlight=False)
    minutes = sum(account.seconds.values()) / 60
    console.print(
        f"took {minutes:.1f} min; peak memory {account.peak_memory_bytes / GIB:.1f} GiB "
        f"(resident sets of all started processes: {account.peak_rss_bytes / GIB:.1f} GiB)",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"report: {run / 'report.html'}", highlight=False, soft_wrap=True)
