"""KubeRay's CRD schemas, as strict as the API server can be.

As the API server does on creation: defaults are filled in, unknown fields are refused, the keys of keyed
lists are unique, and the CEL rules of the definition hold.
"""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import celpy
from celpy.adapter import json_to_cel
from jsonschema import Draft202012Validator

from k8s.validation import crds
from k8s.validation.core_schema import metadata_faults
from k8s.validation.explain import explained_faults
from k8s.validation.findings import Fault, Manifest, join_path

type Schema = dict[str, Any]

API_VERSION = "ray.io/v1"


def custom_resource_faults(manifest: Manifest) -> Iterator[Fault]:
    """Faults of structure of an object of KubeRay."""
    kind, api_version = manifest["kind"], manifest["apiVersion"]
    if kind not in crds.PLURALS or api_version != API_VERSION:
        yield Fault(
            "apiVersion",
            f"{kind} of {api_version} is not among {', '.join(crds.PLURALS)} of {API_VERSION}; the alpha"
            " version is deprecated and will go",
            f"Use {API_VERSION} and one of these kinds.",
        )
        return
    schema = crds.openapi_schema(kind)
    completed = copy.deepcopy(manifest)
    _fill_defaults(schema, completed)
    faults = [*explained_faults(_validator(kind), completed), *metadata_faults(manifest)]
    # The rules of the definition read fields that the schema has not vouched for otherwise.
    yield from faults or _rule_faults(schema, completed)


@cache
def _validator(kind: str) -> Draft202012Validator:
    schema = _strict(crds.openapi_schema(kind))
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(schema)


def _strict(schema: Schema) -> Schema:
    """An OpenAPI schema of a CRD as a JSON Schema that refuses unknown fields."""
    strict = {key: _strict_part(key, value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        strict.pop("type", None)
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not is_open:
        strict["additionalProperties"] = False
    return strict


def _strict_part(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _strict(field) for name, field in value.items()}
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return _strict(value)
    return value


class _Node(NamedTuple):
    """A value of a manifest beside its schema."""

    schema: Schema
    value: Any
    path: tuple[str | int, ...] = ()


def _children(node: _Node) -> Iterator[_Node]:
    if isinstance(node.value, dict):
        fields, others = node.schema.get("properties", {}), node.schema.get("additionalProperties", {})
        for key, value in node.value.items():
            yield _Node(fields.get(key, others), value, (*node.path, key))
    if isinstance(node.value, list):
        for index, value in enumerate(node.value):
            yield _Node(node.schema.get("items", {}), value, (*node.path, index))


def _walk(node: _Node) -> Iterator[_Node]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _fill_defaults(schema: Schema, value: Any) -> None:
    for node in _walk(_Node(schema, value)):
        if isinstance(node.value, dict):
            for name, field in node.schema.get("properties", {}).items():
                if "default" in field:
                    node.value.setdefault(name, copy.deepcopy(field["default"]))


def _rule_faults(schema: Schema, value: Any) -> Iterator[Fault]:
    for node in _walk(_Node(schema, value)):
        yield from _duplicates(node)
        yield from _broken_cel_rules(node)


def _duplicates(node: _Node) -> Iterator[Fault]:
    keys = node.schema.get("x-kubernetes-list-map-keys", ())
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(node.value if keys else ()):
        identity = tuple(str(item.get(key)) for key in keys)
        if identity in seen:
            yield Fault(
                join_path((*node.path, index)),
                f"a second item with {' and '.join(keys)} {'/'.join(identity)}",
                "Remove one of the two.",
            )
        seen.add(identity)


def _broken_cel_rules(node: _Node) -> Iterator[Fault]:
    for validation in node.schema.get("x-kubernetes-validations", ()):
        rule = validation["rule"]
        # Transition rules compare with the object that is already there.
        if "oldSelf" in rule or _cel_program(rule).evaluate({"self": json_to_cel(node.value)}):
            continue
        message = validation.get("message", "breaks a rule of the definition").rstrip(".")
        yield Fault(join_path(node.path), message, f"The definition demands {rule}")


@cache
def _cel_program(rule: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))
