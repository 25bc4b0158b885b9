"""KubeRay's definitions: the same from either road, and only those of the pinned release."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from k8s.__main__ import app
from k8s.props import RayWorkload
from k8s.render import manifests
from k8s.validation import ManifestsRefused, crds, refuse_faulty

DEFINITION = """
spec:
  versions:
  - {name: v1, schema: {openAPIV3Schema: {description: a text, properties: {description: {type: string}}}}}
  - {name: v1alpha1}
kind: CustomResourceDefinition
"""
COMPACT = (
    '{"kind":"CustomResourceDefinition","spec":{"versions":[{"name":"v1","schema":'
    '{"openAPIV3Schema":{"properties":{"description":{"type":"string"}}}}}]}}'
)


@pytest.mark.parametrize("kind", crds.PLURALS)
def test_the_definitions_of_the_pinned_release_are_there(kind: str) -> None:
    assert "spec" in crds.openapi_schema(kind)["properties"]


def test_compact_keeps_the_served_version_and_drops_the_prose() -> None:
    """A field that is named description is no prose."""
    assert crds.compact(DEFINITION) == COMPACT


def test_a_download_is_converted_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.io_things.yaml").write_text(DEFINITION)
    monkeypatch.setattr(crds, "_URL", f"{tmp_path.as_uri()}/ray.io_{{plural}}.yaml")
    digest = "df0d5c0d25d5ad1e6a4ba9b6e9d9d4b14a3d8ba4b4b6a6fd9c2b5b1f6ce1a7a3"
    monkeypatch.setattr(crds, "_SHA256", {"things": digest})
    with pytest.raises(crds.CrdsMissing, match=r"is not KubeRay 1\.7\.0's: sha256 [0-9a-f]{64}") as refused:
        crds.download(tmp_path / "to")
    found = str(refused.value).split("sha256 ")[1].split(",")[0]
    monkeypatch.setattr(crds, "_SHA256", {"things": found})
    (path,) = crds.download(tmp_path / "to")
    assert json.loads(path.read_text()) == json.loads(COMPACT)


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.io_rayjobs.v1.json").write_text("{}")
    monkeypatch.setattr(crds, "_FOLDERS", (tmp_path,))
    crds.openapi_schema.cache_clear()
    with pytest.raises(crds.CrdsMissing, match=r"Delete it and run `make crds`"):
        crds.openapi_schema("RayJob")
    crds.openapi_schema.cache_clear()


def test_missing_definitions_end_a_command_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crds, "_FOLDERS", (tmp_path,))
    crds.openapi_schema.cache_clear()
    manifest = tmp_path / "job.yaml"
    manifest.write_text("{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: maze}, spec: {}}")
    result = CliRunner().invoke(app, ["validate", str(manifest)])
    crds.openapi_schema.cache_clear()
    assert result.exit_code == 1
    assert "Run `make crds`." in result.stderr


def test_a_synthesis_without_definitions_says_so_and_still_makes_the_other_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: RayWorkload
) -> None:
    monkeypatch.setattr(crds, "_FOLDERS", (tmp_path,))
    with pytest.warns(UserWarning, match="not checked against them"):
        objects = [item for chart in manifests(workload).values() for item in chart]
    smaller_nodes = [workload.head, replace(workload.workers, memory_gib=64)]
    with pytest.warns(UserWarning, match="make crds"), pytest.raises(ManifestsRefused, match="memory"):
        refuse_faulty(objects, smaller_nodes)
