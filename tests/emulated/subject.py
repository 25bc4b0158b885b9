"""The stacks under test: app.py's own, synthesized as the CLI would, for settings that a test may vary."""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import aws_cdk as cdk

import app as application
from stacks.settings import CDK_JSON, Settings, parse_settings

PUBLISHED_DIGEST = "sha256:" + "1" * 64
"""Stands for the digest that a user puts in place of cdk.json's placeholder."""
_LARGEST_ASSET = 1_000_000
"""Bytes; larger ones are Lambda layers, whose content nothing here reads."""


def environment_of_cdk_json(name: str) -> dict[str, Any]:
    """One environment of cdk.json as it stands there."""
    environment: dict[str, Any] = json.loads(CDK_JSON.read_text())["context"]["environments"][name]
    return environment


def settings_of(name: str, **changes: Mapping[str, Any]) -> Settings:
    """An environment with a published base image, and with sections changed key by key."""
    environment = environment_of_cdk_json(name)
    image = environment["image"]["base_image"].partition("@")[0] + "@" + PUBLISHED_DIGEST
    for section, values in {"image": {"base_image": image}, **changes}.items():
        environment[section] = {**environment.get(section, {}), **values}
    return parse_settings(environment)


def with_instance_count(name: str, count: int) -> Settings:
    """An environment with another number of GPU workers."""
    environment = json.loads(settings_of(name).model_dump_json(exclude_unset=True))
    environment["instance_groups"][0]["instance_count"] = count
    return parse_settings(environment)


@dataclass(frozen=True)
class Assembly:
    """A cloud assembly on disk."""

    folder: Path

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """Names of the stacks in the order in which the CLI deploys them."""
        artifacts = json.loads((self.folder / "manifest.json").read_text())["artifacts"]
        stacks = {k: v for k, v in artifacts.items() if v["type"] == "aws:cloudformation:stack"}
        order = TopologicalSorter({k: set(v.get("dependencies", ())) for k, v in stacks.items()})
        return tuple(name for name in order.static_order() if name in stacks)

    def template(self, stack: str) -> dict[str, Any]:
        """A stack's template."""
        template: dict[str, Any] = json.loads((self.folder / f"{stack}.template.json").read_text())
        return template

    def files(self) -> dict[str, bytes]:
        """Object key in the assets bucket -> content, of the assets that something here reads."""
        files: dict[str, bytes] = {}
        for manifest in self.folder.glob("*.assets.json"):
            for asset in json.loads(manifest.read_text())["files"].values():
                (destination,) = asset["destinations"].values()
                files[destination["objectKey"]] = _content(self.folder / asset["source"]["path"])
        return files


def synthesize(settings: Settings, folder: Path) -> Assembly:
    """The stacks of app.py for these settings. The validator is left out: `make check` runs it."""
    os.environ["CDK_VALIDATION"] = "false"
    app = cdk.App(context=json.loads(CDK_JSON.read_text())["context"], outdir=str(folder))
    application.compose(app, settings)
    app.synth()
    return Assembly(folder)


def _content(path: Path) -> bytes:
    if path.is_file():
        return path.read_bytes() if path.stat().st_size < _LARGEST_ASSET else b""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in sorted(path.rglob("*")):
            archive.write(file, file.relative_to(path))
    return buffer.getvalue()
