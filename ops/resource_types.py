"""What CloudFormation's registry says of a resource type: its identifiers, and which changes replace it.

The schemas are those that cfn-lint ships, with cfn-lint's own additions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

CUSTOM_RESOURCE = "AWS::CloudFormation::CustomResource"


class UnknownResourceType(Exception):
    """The region has no such resource type."""


def is_custom(resource_type: str) -> bool:
    """Whether a function, not CloudFormation, creates resources of this type."""
    return resource_type.startswith("Custom::") or resource_type == CUSTOM_RESOURCE


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

    def replaces(self, *, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
        """The create-only properties that differ: CloudFormation makes a new resource for each of them."""
        return [name for name in self.create_only if value_at(before, name) != value_at(after, name)]


@cache
def resource_schema(resource_type: str, *, region: str) -> ResourceSchema:
    """The registry's schema of a type in a region. Raises UnknownResourceType when it has none."""
    # Importing cfn-lint takes longer than most commands of ops run.
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError  # noqa: PLC0415

    if is_custom(resource_type):
        resource_type = CUSTOM_RESOURCE
    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, resource_type)
    except ResourceNotFoundError as error:
        raise UnknownResourceType(f"Unrecognized resource type {resource_type} in {region}") from error
    return ResourceSchema(
        resource_type=resource_type, document=schema.schema, attributes=frozenset(schema.get_atts)
    )


def value_at(properties: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted property name, None when it is not given."""
    value: Any = properties
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _dotted(pointer: str) -> str:
    return pointer.removeprefix("/properties/").replace("/properties/", "/").replace("/", ".")
