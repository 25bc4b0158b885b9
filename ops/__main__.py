"""`python -m ops`: one command per thing a person does with a deployment. `--help` of each has an example."""

import typer

from ops.audit import audit
from ops.cost import cost
from ops.diagnose import diagnose
from ops.pin import pin
from ops.preflight import preflight
from ops.processes import exit_on_ending_signals
from ops.rehearse import rehearse
from ops.review import review
from ops.submit import submit
from ops.teardown import teardown
from ops.watch import logs, report, status

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Rehearse, review, deploy, run, watch and take down a deployment."""
    exit_on_ending_signals()


COMMANDS = (
    rehearse,
    review,
    pin,
    preflight,
    cost,
    submit,
    status,
    logs,
    report,
    diagnose,
    teardown,
    audit,
)
for command in COMMANDS:
    app.command()(command)

if __name__ == "__main__":
    app()
