"""Everything that would make a deploy fail or stall, asked beforehand without changing anything."""

from datetime import UTC, datetime

import typer
from rich.console import Console

from ops.aws import Aws
from ops.checks import account, capacity, collisions, network, software
from ops.checks.model import Context, Finding, Status
from ops.output import DEFAULT, EnvironmentOption, JsonOption, emit, failures_as_one_line, settings_of

CHECKS = (
    *account.CHECKS,
    *capacity.CHECKS,
    *network.CHECKS,
    *software.CHECKS,
    *collisions.CHECKS,
)
MARKS = {
    Status.PASS: "[green]pass[/]   ",
    Status.WARN: "[yellow]warn[/]   ",
    Status.FAIL: "[bold red]FAIL[/]   ",
    Status.UNKNOWN: "[magenta]unknown[/]",
}
EXIT_FAILED, EXIT_UNKNOWN = 1, 2


def run_checks(context: Context) -> list[Finding]:
    """All checks; without credentials only those that need none, and one finding for the rest."""
    found = account.CHECKS[0].run(context)
    signed_in = found[0].status is Status.PASS
    for check in CHECKS[1:]:
        if signed_in or not check.needs_credentials:
            found += check.run(context)
    if not signed_in:
        missed = ", ".join(check.name for check in CHECKS if check.needs_credentials)
        found.append(
            Finding(
                check="not-checked",
                status=Status.UNKNOWN,
                detail=f"these need credentials: {missed}",
                remedy="Sign in and repeat.",
            )
        )
    return found


def exit_code(findings: list[Finding]) -> int:
    """1 when something fails, 2 when nothing does but something could not be checked."""
    found = {finding.status for finding in findings}
    if Status.FAIL in found:
        return EXIT_FAILED
    return EXIT_UNKNOWN if Status.UNKNOWN in found else 0


def preflight(environment: EnvironmentOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Check the account before a deploy; exit 1 on a failure, 2 if something could not be checked.

    Example: python -m ops preflight --environment small
    """
    with failures_as_one_line():
        settings = settings_of(environment)
        context = Context(settings=settings, aws=Aws(settings.region), now=datetime.now(UTC))
        findings = run_checks(context)
    emit(findings, as_json=as_json, show=lambda console: show(findings, console))
    raise typer.Exit(exit_code(findings))


def show(findings: list[Finding], console: Console) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        console.print(f"{MARKS[finding.status]}  {finding.check:<{width}}  ", end="")
        console.print(finding.detail, markup=False, highlight=False)
        if finding.remedy:
            console.print(f"{'':<{width + 11}}-> {finding.remedy}", markup=False, highlight=False)
    counts = ", ".join(
        f"{number} {status.value}"
        for status in Status
        if (number := sum(finding.status is status for finding in findings))
    )
    console.print(counts, highlight=False)
