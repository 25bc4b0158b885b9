"""A cloud assembly on disk (what `cdk synth` writes), as far as a review reads it.

Read are `manifest.json`, the templates that it names, and the settings that app.py records in it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ops.output import OperationError
from stacks.faults import SettingsError
from stacks.settings import METADATA_TYPE, Settings, parse_settings

STACK = "aws:cloudformation:stack"
NESTED = "cdk:cloud-assembly"


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Properties(_Part):
    templateFile: str | None = None
    stackName: str | None = None


class _Artifact(_Part):
    type: str
    environment: str | None = None
    properties: _Properties = _Properties()
    additionalMetadataFile: str | None = None


class _Manifest(_Part):
    version: str
    artifacts: dict[str, _Artifact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One stack of an assembly."""

    name: str
    region: str
    template: Mapping[str, Any]

    @property
    def resources(self) -> Mapping[str, Any]:
        resources: Mapping[str, Any] = self.template["Resources"]
        return resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The stacks of one synthesis, by name, in the order of the manifest."""

    stacks: Mapping[str, Stack]
    settings: Settings | None
    settings_refused: str = ""
    """Why there are no settings."""


def read_assembly(folder: Path) -> Assembly:
    """Raises OperationError when the folder is no cloud assembly that can be read."""
    manifest = _manifest(folder)
    artifacts = {name: each for name, each in manifest.artifacts.items() if each.type == STACK}
    if nested := [name for name, each in manifest.artifacts.items() if each.type == NESTED]:
        raise OperationError(
            f"{folder}: {nested[0]} is an assembly inside the assembly (a CDK stage), which is not read. "
            f"Give {folder / nested[0]}."
        )
    if not artifacts:
        raise OperationError(f"{folder}: manifest.json lists no stack. Synthesize again: make synth")
    settings, refused = _settings(folder, artifacts.values())
    stacks = {name: _stack(folder, name, artifact) for name, artifact in artifacts.items()}
    return Assembly(stacks=stacks, settings=settings, settings_refused=refused)


def _manifest(folder: Path) -> _Manifest:
    if not folder.is_dir():
        raise OperationError(f"{folder} is not a folder. Give one that cdk synth wrote, such as cdk.out.")
    if not (folder / "manifest.json").is_file():
        raise OperationError(
            f"{folder} has no manifest.json, so it is no cloud assembly. Synthesize it: make synth"
        )
    try:
        return _Manifest.model_validate(_json(folder / "manifest.json"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise OperationError(
            f"{folder / 'manifest.json'} has another schema than a cloud assembly's: "
            f"{where}: {first['msg']}. Synthesize with the CDK version of package-lock.json."
        ) from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OperationError(
            f"{path} cannot be read as JSON: {error}. Synthesize again: make synth"
        ) from error


def _stack(folder: Path, name: str, artifact: _Artifact) -> Stack:
    path = folder / (artifact.properties.templateFile or f"{name}.template.json")
    template = _json(path)
    if not isinstance(template, dict) or not isinstance(template.get("Resources"), dict):
        raise OperationError(f"{path} is no CloudFormation template: it has no object at Resources.")
    region = (artifact.environment or "").rpartition("/")[2]
    return Stack(name=artifact.properties.stackName or name, region=region, template=template)


def _settings(folder: Path, artifacts: Iterable[_Artifact]) -> tuple[Settings | None, str]:
    files = [each.additionalMetadataFile for each in artifacts if each.additionalMetadataFile]
    entries = (entry for file in files for entry in _metadata(folder / file))
    recorded = next((entry["data"] for entry in entries if entry["type"] == METADATA_TYPE), None)
    return _parsed(recorded) if recorded else (None, "it does not record its settings")


def _metadata(path: Path) -> Iterator[dict[str, Any]]:
    for entries in _json(path).values():
        yield from entries


def _parsed(recorded: Any) -> tuple[Settings | None, str]:
    try:
        return parse_settings(recorded), ""
    except SettingsError as error:
        return None, f"its settings are refused by this version: {error.faults[0]}"
