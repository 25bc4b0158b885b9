"""Writes into cdk.json what it leaves open: the base image's digest, the commits of models and data sets."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ops import registry
from ops.output import JsonOption, emit, failures_as_one_line
from stacks.pins import OPEN_COMMIT, OPEN_DIGEST
from stacks.settings import CDK_JSON, Settings, environments_of, load_settings

RefreshOption = Annotated[bool, typer.Option("--refresh", help="Renew what is pinned already, too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A name of an environment, and what it names now."""

    environment: str
    before: str
    after: str


def pin(refresh: RefreshOption = False, as_json: JsonOption = False) -> None:
    """Look up the digest and the commits that cdk.json leaves open, and write them there.

    Example: python -m ops pin
    """
    with failures_as_one_line():
        pins = pin_file(CDK_JSON, refresh=refresh)
    emit(pins, as_json=as_json, show=lambda console: show(pins, console))


def pin_file(path: Path, *, refresh: bool = False) -> list[Pin]:
    """Pin every environment of a cdk.json. It is replaced in one go, after all lookups; or stays as it is.

    Raises SettingsError for an environment that cannot be deployed, OperationError for a failed lookup.
    """
    environments = environments_of(path)
    lookup = Lookup(refresh=refresh)
    pins = []
    for name, environment in environments.items():
        pins += _pin_environment(name, environment, load_settings(name, path), lookup)
    if pins:
        document = json.loads(path.read_text(encoding="utf-8"))
        document["context"]["environments"] = environments
        finished = path.with_suffix(".json.new")
        finished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        finished.replace(path)
    return pins


class Lookup:
    """Pins one name; asks for each only once."""

    def __init__(self, *, refresh: bool) -> None:
        self.refresh = refresh
        self._digest_of: Callable[[str], str] = cache(registry.digest_of)
        self._commit_of: Callable[[str], str] = cache(registry.commit_of)

    def image(self, image: str) -> str:
        name, _, digest = image.partition("@")
        is_open = digest == f"sha256:{OPEN_DIGEST}"
        return f"{name}@{self._digest_of(name)}" if is_open or self.refresh else image

    def source(self, source: str) -> str:
        """S3 has no commits: what lies there carries checksums in its own manifest."""
        address, _, rest = source.partition("@")
        commit, slash, folder = rest.partition("/")
        if not source.startswith("hf://") or not (self.refresh or commit == OPEN_COMMIT):
            return source
        repository = address.removeprefix("hf://")
        kind = "" if repository.startswith("datasets/") else "models/"
        return f"{address}@{self._commit_of(kind + repository)}{slash}{folder}"


def _pin_environment(name: str, environment: dict[str, Any], settings: Settings, lookup: Lookup) -> list[Pin]:
    image = settings.image.base_image
    artifacts = settings.staging.artifacts
    pinned_image = lookup.image(image)
    pinned_sources = [lookup.source(artifact.source) for artifact in artifacts]
    pins = [
        Pin(environment=name, before=before, after=after)
        for before, after in zip(
            [image, *(artifact.source for artifact in artifacts)],
            [pinned_image, *pinned_sources],
            strict=True,
        )
        if before != after
    ]
    if pins:
        environment["image"]["base_image"] = pinned_image
        environment.setdefault("staging", {})["artifacts"] = [
            {"source": source, "folder": artifact.folder}
            for artifact, source in zip(artifacts, pinned_sources, strict=True)
        ]
    return pins


def show(pins: list[Pin], console: Console) -> None:
    for found in pins:
        console.print(f"{found.environment}: {found.after}", markup=False, highlight=False)
    console.print(f"{len(pins)} written to cdk.json" if pins else "everything is pinned", highlight=False)
