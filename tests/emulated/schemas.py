"""What CloudFormation's registry says of a resource type: which properties are legal, which changes replace.

The schemas are those that cfn-lint ships, with cfn-lint's own additions. A type that the region does not
offer is refused, as CloudFormation does.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import regex
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError
from jsonschema import Draft7Validator, TypeChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

CUSTOM_RESOURCE = "AWS::CloudFormation::CustomResource"
_BOOLEANS = ("true", "false")


class UnknownResourceType(Exception):
    """The region has no such resource type."""


def is_custom(resource_type: str) -> bool:
    """Whether a function, not CloudFormation, creates resources of this type."""
    return resource_type.startswith("Custom::") or resource_type == CUSTOM_RESOURCE


def _is_boolean(_: TypeChecker, value: Any) -> bool:
    return isinstance(value, bool) or value in _BOOLEANS


def _is_integer(_: TypeChecker, value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip("-").isdigit()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: TypeChecker, value: Any) -> bool:
    return isinstance(value, float) or _is_integer(checker, value)


def _is_string(_: TypeChecker, value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    # Registry patterns use Unicode classes such as \p{L}, which the standard library's engine lacks.
    if isinstance(instance, str) and not regex.search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _on_converted(keyword: str, convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """The keyword's check, on the instance as CloudFormation would convert it."""
    check = Draft7Validator.VALIDATORS[keyword]

    def on_converted(validator: Any, limit: Any, instance: Any, schema: Any) -> Any:
        is_scalar = isinstance(instance, str | int | float)
        return check(validator, limit, convert(instance) if is_scalar else instance, schema)

    return on_converted


def _number(value: Any) -> Any:
    return float(value) if _is_integer(TypeChecker(), value) else value


# CloudFormation converts between scalars ("3" for 3, true for "true") before it asks the resource's handler.
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft7Validator,
    validators={
        "pattern": _pattern,
        **{keyword: _on_converted(keyword, _number) for keyword in ("maximum", "minimum")},
        **{keyword: _on_converted(keyword, str) for keyword in ("maxLength", "minLength")},
    },
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many(
        {"boolean": _is_boolean, "integer": _is_integer, "number": _is_number, "string": _is_string}
    ),
)


@dataclass(frozen=True)
class ResourceSchema:
    """One resource type of the registry."""

    resource_type: str
    document: Mapping[str, Any]
    attributes: frozenset[str]
    """Names that Fn::GetAtt accepts, dotted."""

    @cached_property
    def primary_identifier(self) -> tuple[str, ...]:
        return tuple(_dotted(pointer) for pointer in self.document["primaryIdentifier"])

    @cached_property
    def read_only(self) -> tuple[str, ...]:
        """Properties that only AWS sets, dotted; those inside list items are left out."""
        names = (_dotted(pointer) for pointer in self.document.get("readOnlyProperties", []))
        return tuple(name for name in names if "*" not in name)

    @cached_property
    def create_only(self) -> tuple[str, ...]:
        return tuple(_dotted(pointer) for pointer in self.document.get("createOnlyProperties", []))

    @cached_property
    def _validator(self) -> Any:
        return _Validator(self.document)

    def faults(self, properties: Mapping[str, Any]) -> list[str]:
        """Why the resource's handler would refuse these resolved properties; empty when it would not."""
        errors = sorted(self._validator.iter_errors(properties), key=lambda error: list(map(str, error.path)))
        faults = [f"#/{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in errors]
        for name in self.read_only:
            if name in properties and name not in self.create_only:
                faults.append(f"#/{name}: encountered a read-only property")
        return faults

    def replaces(self, *, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
        """The create-only properties that differ: CloudFormation makes a new resource for each of them."""
        return [name for name in self.create_only if _value_at(before, name) != _value_at(after, name)]


@cache
def resource_schema(resource_type: str, *, region: str) -> ResourceSchema:
    """The registry's schema of a type in a region."""
    if is_custom(resource_type):
        resource_type = CUSTOM_RESOURCE
    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, resource_type)
    except ResourceNotFoundError as error:
        raise UnknownResourceType(f"Unrecognized resource type {resource_type} in {region}") from error
    return ResourceSchema(
        resource_type=resource_type, document=schema.schema, attributes=frozenset(schema.get_atts)
    )


def _dotted(pointer: str) -> str:
    return pointer.removeprefix("/properties/").replace("/properties/", "/").replace("/", ".")


def _value_at(properties: Mapping[str, Any], name: str) -> Any:
    value: Any = properties
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
