"""Write the dashboards for any Grafana: `python -m stacks.dashboards --output dist/dashboards`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from stacks.dashboards.boards import boards
from stacks.dashboards.content import usd_per_hour
from stacks.settings import DEFAULT_ENVIRONMENT, load_settings


def write(
    output: Annotated[Path, typer.Option(help="Folder to write to.")],
    environment: Annotated[str, typer.Option(help="Environment of cdk.json.")] = DEFAULT_ENVIRONMENT,
    file_system_id: Annotated[str, typer.Option(help="For the panels of the file system.")] = "fs-unknown",
) -> None:
    """One JSON file a dashboard, to import by hand or to provision from disk.

    Their data sources have the uids rl-prometheus and rl-cloudwatch.
    """
    output.mkdir(parents=True, exist_ok=True)
    for board in boards(usd_per_hour=usd_per_hour(load_settings(environment))):
        text = json.dumps(board.to_json(), indent=2).replace("@@FILE_SYSTEM_ID@@", file_system_id)
        path = output / f"{board.uid}.json"
        path.write_text(f"{text}\n", encoding="utf-8")
        typer.echo(str(path))


if __name__ == "__main__":
    typer.run(write)
