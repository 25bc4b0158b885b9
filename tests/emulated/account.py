"""The emulated account: every resource that exists, whoever made it, and what was done in which order."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.emulated.identities import Identity

_UNIQUE = re.compile(r"arn:|[a-z]+-[0-9a-f]{17}$|(g|d)-[0-9a-z]{10,12}$")
"""Attributes that name one resource of the account, as against states and addresses."""
_TOKEN = re.compile(r"[\w:/.\-]+")


class Action(StrEnum):
    """What happened to a resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    RETAIN = "retain"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One live resource."""

    resource_type: str
    logical_id: str
    stack: str
    """The stack that made it; it stays after the stack let go of a retained resource."""
    identity: Identity
    properties: Mapping[str, Any]
    """As resolved at the last create or update."""

    @property
    def key(self) -> tuple[str, ...]:
        return (self.resource_type, *self.identity.primary)

    def mentions(self, identifier: str) -> bool:
        """Whether the id or ARN appears anywhere in the resource's properties."""
        return identifier in _strings_text(self.properties)


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """One thing done to one resource."""

    action: Action
    stack: str
    logical_id: str
    resource_type: str


@dataclass(kw_only=True)
class Account:
    """All live resources by type and primary identifier."""

    resources: dict[tuple[str, ...], Resource] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Generated ids and ARNs of resources that were deleted."""
    running_nodes: dict[str, int] = field(default_factory=dict)
    """HyperPod cluster's ARN -> instances that run."""
    journal: list[JournalEntry] = field(default_factory=list)

    def of_type(self, *resource_types: str) -> Iterator[Resource]:
        """Live resources of any of the types."""
        return (resource for resource in self.resources.values() if resource.resource_type in resource_types)

    def record(self, action: Action, resource: Resource) -> None:
        """Add to the journal."""
        self.journal.append(
            JournalEntry(
                action=action,
                stack=resource.stack,
                logical_id=resource.logical_id,
                resource_type=resource.resource_type,
            )
        )

    def add(self, resource: Resource) -> None:
        """A new resource is live."""
        self.resources[resource.key] = resource
        self.gone.difference_update(generated_ids(resource))

    def remove(self, resource: Resource) -> None:
        """The resource is gone, and whoever still names its generated ids names nothing."""
        del self.resources[resource.key]
        self.gone.update(generated_ids(resource))

    def dangling(self, properties: Mapping[str, Any]) -> set[str]:
        """Ids in the properties that name something deleted."""
        return self.gone.intersection(_TOKEN.findall(_strings_text(properties)))


def generated_ids(resource: Resource) -> set[str]:
    """Ids and ARNs that only this resource has."""
    values = resource.identity.attributes.values()
    return {value for value in values if isinstance(value, str) and _UNIQUE.match(value)}


def _strings_text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_strings_text, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_strings_text, value))
    return str(value)
