"""What a change does to a deployment, before it is deployed: the comment of a pull request.

Compares what `make synth` wrote for two versions; asks neither AWS nor the network.
"""

from pathlib import Path
from typing import Annotated

import typer

from ops.output import JsonOption, emit, failures_as_one_line
from ops.reviewing.markdown import markdown
from ops.reviewing.review import compare


def review(
    base: Annotated[Path, typer.Argument(help="Cloud assembly (cdk.out) of the version that is deployed.")],
    head: Annotated[Path, typer.Argument(help="Cloud assembly of the version to be reviewed.")],
    manifests: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="BASE HEAD", help="Folders of manifests (dist).")
    ] = None,
    allow_destructive: Annotated[
        bool,
        typer.Option("--allow-destructive", help="Exit 0 though what holds data is replaced or destroyed."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a deploy of HEAD over BASE changes, as Markdown; exit 1 when data would be lost.

    Example: python -m ops review base/cdk.out cdk.out --manifests base/dist dist
    """
    with failures_as_one_line():
        found = compare(base, head, manifests=manifests, allow_destructive=allow_destructive)
    text = markdown(found)
    emit(found.as_json(), as_json=as_json, show=lambda _: typer.echo(text))
    raise typer.Exit(1 if found.is_refused else 0)
