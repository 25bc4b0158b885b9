"""Render and check manifests without AWS.

    python -m k8s --output dist            the walkthrough's manifests as files
    python -m k8s validate cluster.yaml    faults of any manifest, each with path, rule and remedy
    python -m k8s crds                     KubeRay's definitions, which the checks need

What only a deployment knows (image, file system) is filled in with examples unless given as an option, so the
output can be read, diffed and applied to a cluster of one's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import yaml

from k8s.props import NodeGroup, WorkloadRefused
from k8s.render import manifests, to_yaml
from k8s.validation import Manifest, ManifestsRefused, validate
from k8s.validation.crds import CrdsMissing, download
from stacks.faults import SettingsError
from stacks.settings import DEFAULT_ENVIRONMENT, load_settings
from stacks.workload import node_group, ray_workload

app = typer.Typer(help="The Kubernetes manifests of the Ray workload, without AWS.", add_completion=False)

Environment = Annotated[str, typer.Option(help="Environment of cdk.json.")]


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What a user can mend ends the command with its message and exit code 1."""
    try:
        yield
    except (SettingsError, WorkloadRefused, CrdsMissing, OSError, yaml.YAMLError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.callback(invoke_without_command=True)
def render(
    context: typer.Context,
    environment: Environment = DEFAULT_ENVIRONMENT,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; stdout when left out.")] = None,
    image: Annotated[str, typer.Option(help="Training image.")] = "registry.example/training:example",
    file_system_id: Annotated[str, typer.Option(help="Of the FSx file system.")] = "fs-0123456789abcdef0",
    dns_name: Annotated[str, typer.Option(help="Of the FSx file system.")] = "fs-0123456789abcdef0.example",
    mount_name: Annotated[str, typer.Option(help="Of the FSx file system.")] = "examplev",
) -> None:
    """Render the manifests, a YAML stream or file per chart in the order of application.

    Example: python -m k8s --environment small --output dist
    """
    if context.invoked_subcommand:
        return
    with _one_line_errors():
        workload = ray_workload(
            load_settings(environment),
            image=image,
            file_system_id=file_system_id,
            dns_name=dns_name,
            mount_name=mount_name,
        )
        for index, (name, objects) in enumerate(manifests(workload).items(), start=1):
            if output is None:
                typer.echo(to_yaml(objects), nl=False)
            else:
                output.mkdir(parents=True, exist_ok=True)
                (output / f"{index}-{name}.k8s.yaml").write_text(to_yaml(objects), encoding="utf-8")


@app.command("validate")
def validate_files(
    files: Annotated[list[Path], typer.Argument(help="YAML files, any number of objects each.")],
    environment: Annotated[
        str | None, typer.Option(help="Check too that the pods fit this environment's instance groups.")
    ] = None,
) -> None:
    """Find what Kubernetes, KubeRay or the scheduler would refuse; exit code 1 when there is something.

    Example: python -m k8s validate --environment walkthrough dist/*.yaml
    """
    with _one_line_errors():
        objects = [item for path in files for item in _read(path)]
        findings = validate(objects, _node_groups(environment))
        if findings:
            raise ManifestsRefused(findings)
    typer.echo(f"{len(objects)} objects in {len(files)} files: no fault found")


@app.command("crds")
def fetch_definitions() -> None:
    """Download KubeRay's custom resource definitions of the pinned release and verify them.

    Example: python -m k8s crds
    """
    with _one_line_errors():
        for path in download():
            typer.echo(str(path))


def _read(path: Path) -> list[Manifest]:
    documents = [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]
    for document in documents:
        if not isinstance(document, dict):
            raise yaml.YAMLError(f"{path}: {str(document)[:60]!r} is no Kubernetes object. Give manifests.")
    return documents


def _node_groups(environment: str | None) -> list[NodeGroup]:
    if environment is None:
        return []
    return [node_group(group) for group in load_settings(environment).instance_groups]


if __name__ == "__main__":
    app()
