"""Strict schemas of Kubernetes' own kinds, for the pinned version, from the package kubernetes-validate.

Strict means that an unknown field is a fault. An API server drops such fields silently unless asked to be
strict, so a misspelt `limits` would otherwise be no limit.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

from k8s.names import KUBERNETES_VERSION
from k8s.validation.explain import explained_faults
from k8s.validation.findings import Fault, Manifest

_FOLDER = f"kubernetes-json-schema/v{KUBERNETES_VERSION}.0-local-strict"
_KUBERNETES_GROUP = re.compile(r"^([a-z]+/|([a-z]+|rbac\.authorization)\.k8s\.io/)?v\d\w*$")
_OBJECT_META = "/api/_definitions.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def core_faults(manifest: Manifest) -> Iterator[Fault]:
    """Faults of structure of an object of Kubernetes' own; of another operator's only the metadata's."""
    kind, api_version = manifest["kind"], manifest["apiVersion"]
    validator = _validator(kind, api_version)
    if validator is not None:
        yield from explained_faults(validator, manifest)
        return
    yield from metadata_faults(manifest)
    if _KUBERNETES_GROUP.match(api_version):
        yield Fault(
            "kind",
            f"{kind} of {api_version} is no kind of Kubernetes {KUBERNETES_VERSION}",
            "Correct apiVersion or kind.",
        )


def metadata_faults(manifest: Manifest) -> Iterator[Fault]:
    """Faults of the metadata alone, which a custom resource's own schema leaves open."""
    yield from explained_faults(_metadata_validator(), manifest["metadata"], "metadata")


@cache
def _metadata_validator() -> Draft202012Validator:
    return _with_definitions({"$id": "https://kubernetes.io/api/objectmeta/v1", "$ref": _OBJECT_META})


@cache
def _validator(kind: str, api_version: str) -> Draft202012Validator | None:
    # apps/v1 lies in deployment-apps-v1.json, rbac.authorization.k8s.io/v1 in role-rbac-v1.json.
    group_and_version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    try:
        return _with_definitions(_read(f"{kind.lower()}-{group_and_version}"))
    except FileNotFoundError:
        return None


def _with_definitions(schema: dict[str, Any]) -> Draft202012Validator:
    registry: Registry[Any] = _definitions() @ Registry()
    return Draft202012Validator(schema, registry=registry)


@cache
def _definitions() -> Resource[Any]:
    return Resource.from_contents(_read("_definitions"))


def _read(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = schema_contents(f"{_FOLDER}/{name}.json", KUBERNETES_VERSION)
    return schema
