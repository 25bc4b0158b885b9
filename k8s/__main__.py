"""Render the manifests without AWS: `python -m k8s --output dist`.

What only a deployment knows (image, file system) is filled in with examples unless given as an option, so the
output can be read, diffed and applied to a cluster of one's own.
"""

from pathlib import Path
from typing import Annotated

import typer

from k8s.render import manifests, to_yaml
from stacks.faults import SettingsError
from stacks.settings import DEFAULT_ENVIRONMENT, load_settings
from stacks.workload import ray_workload

app = typer.Typer(help="The Kubernetes manifests of the Ray workload, without AWS.", add_completion=False)

Environment = Annotated[str, typer.Option(help="Environment of cdk.json.")]


@app.callback(invoke_without_command=True)
def render(
    environment: Environment = DEFAULT_ENVIRONMENT,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; stdout when left out.")] = None,
    image: Annotated[str, typer.Option(help="Training image.")] = "registry.example/training:example",
    file_system_id: Annotated[str, typer.Option(help="Of the FSx file system.")] = "fs-0123456789abcdef0",
    dns_name: Annotated[str, typer.Option(help="Of the FSx file system.")] = "fs-0123456789abcdef0.example",
    mount_name: Annotated[str, typer.Option(help="Of the FSx file system.")] = "examplev",
) -> None:
    """Render the manifests, a file or YAML document stream per chart in the order of application.

    Example: python -m k8s --environment small --output dist
    """
    try:
        workload = ray_workload(
            load_settings(environment),
            image=image,
            file_system_id=file_system_id,
            dns_name=dns_name,
            mount_name=mount_name,
        )
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for index, (name, objects) in enumerate(manifests(workload).items(), start=1):
        if output is None:
            typer.echo(to_yaml(objects), nl=False)
        else:
            output.mkdir(parents=True, exist_ok=True)
            (output / f"{index}-{name}.k8s.yaml").write_text(to_yaml(objects), encoding="utf-8")


if __name__ == "__main__":
    app()
