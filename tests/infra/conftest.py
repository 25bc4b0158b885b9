"""Each environment of cdk.json, synthesized once per test run, as plain dictionaries.

Synthesis reads the feature flags of cdk.json as the CLI does, and leaves the template validator out: the CLI
runs it in `make check`, here it would only cost time.
"""

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

import app as application
from stacks.settings import CDK_JSON, Settings, load_settings

os.environ["CDK_VALIDATION"] = "false"

type Template = Mapping[str, Any]

ENVIRONMENTS = ("walkthrough", "small")
PARTS = ("network", "storage", "registry", "cluster", "hyperpod", "addons", "observability", "ray")


def flagged_app(directory: Path | None = None) -> cdk.App:
    """An app with the feature flags of cdk.json."""
    return cdk.App(
        context=json.loads(CDK_JSON.read_text())["context"], outdir=str(directory) if directory else None
    )


def synthesize(settings: Settings, directory: Path) -> dict[str, Template]:
    """Every stack's template, by the stack's part of the name (`network`, `cluster`, ...)."""
    app = flagged_app(directory)
    application.compose(app, settings)
    app.synth()
    return read_templates(settings, directory)


def read_templates(settings: Settings, directory: Path) -> dict[str, Template]:
    """The templates of a cloud assembly, by part."""
    prefix, suffix = f"{settings.name}-", ".template.json"
    return {
        path.name.removeprefix(prefix).removesuffix(suffix): json.loads(path.read_text())
        for path in sorted(directory.glob(f"*{suffix}"))
    }


@pytest.fixture(scope="session")
def directory_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`directory_of(environment)` is its cloud assembly; the first call for each environment synthesizes."""

    @cache
    def directory_of(environment: str) -> Path:
        directory = tmp_path_factory.mktemp(environment)
        synthesize(load_settings(environment), directory)
        return directory

    return directory_of


@pytest.fixture(scope="session")
def assembly(directory_of: Callable[[str], Path]) -> Callable[[str], dict[str, Template]]:
    """`assembly(environment)` gives the templates, read once."""
    return cache(lambda environment: read_templates(load_settings(environment), directory_of(environment)))


@pytest.fixture(params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def templates(assembly: Any, environment: str) -> dict[str, Template]:
    """The templates of each environment in turn."""
    return dict(assembly(environment))


@pytest.fixture
def walkthrough(assembly: Any) -> dict[str, Template]:
    return dict(assembly("walkthrough"))


def resources_of(template: Template, resource_type: str) -> dict[str, Any]:
    """Logical id to resource, for one type."""
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == resource_type
    }


def the_resource(template: Template, resource_type: str) -> Any:
    """Properties of the only resource of that type."""
    (resource,) = resources_of(template, resource_type).values()
    return resource["Properties"]


@pytest.fixture
def walkthrough_dependencies(directory_of: Callable[[str], Path]) -> dict[str, set[str]]:
    """Part of the stack to the parts that must exist before it, directly or through others."""
    return stack_dependencies(load_settings(), directory_of("walkthrough"))


def stack_dependencies(settings: Settings, directory: Path) -> dict[str, set[str]]:
    """What the CLI deploys before each part and destroys after it."""
    prefix = f"{settings.name}-"
    artifacts = json.loads((directory / "manifest.json").read_text())["artifacts"]
    direct = {
        name.removeprefix(prefix): {
            dependency.removeprefix(prefix)
            for dependency in artifact.get("dependencies", ())
            if not dependency.endswith(".assets")
        }
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }

    @cache
    def before(part: str) -> frozenset[str]:
        return frozenset(direct[part]).union(*(before(each) for each in direct[part]))

    return {part: set(before(part)) for part in direct}
