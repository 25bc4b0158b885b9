"""What CloudFormation remembers of a stack between operations."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from tests.emulated.account import Resource
from tests.emulated.intrinsics import referenced_names

_MILLISECOND = timedelta(milliseconds=1)


class ValidationError(Exception):
    """The request cannot be accepted; CloudFormation answers with this message."""


@dataclass(frozen=True, kw_only=True)
class Template:
    """A parsed template, its parameters' values and the resources whose conditions hold."""

    body: str
    document: Mapping[str, Any]
    given: Mapping[str, str]
    """Parameters as they were given: for one that reads the Parameter Store, the name there."""
    parameters: Mapping[str, Any]
    """The values that references to parameters give."""
    resources: Mapping[str, Mapping[str, Any]]

    def dependencies(self) -> dict[str, frozenset[str]]:
        """Logical id -> logical ids that must exist before it: the only order CloudFormation promises."""
        return {
            logical_id: frozenset(self._edges(declaration)) & self.resources.keys()
            for logical_id, declaration in self.resources.items()
        }

    @staticmethod
    def _edges(declaration: Mapping[str, Any]) -> set[str]:
        explicit = declaration.get("DependsOn", [])
        explicit = [explicit] if isinstance(explicit, str) else explicit
        return {*explicit, *referenced_names(declaration.get("Properties", {}))}


EMPTY_TEMPLATE = Template(body="{}", document={}, given={}, parameters={}, resources={})


@dataclass(kw_only=True)
class StackResource:
    """One resource of a stack, with what the last template said of it."""

    resource: Resource
    dependencies: frozenset[str]
    deletion_policy: str
    update_replace_policy: str
    status: str

    @property
    def physical_id(self) -> str:
        return self.resource.identity.ref


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the stack's history, as the CDK CLI prints it."""

    event_id: str
    timestamp: datetime
    logical_id: str
    physical_id: str
    resource_type: str
    status: str
    reason: str


@dataclass(kw_only=True)
class Stack:
    """A stack and its history. The newest event is first, as the API gives them."""

    name: str
    stack_id: str
    status: str = "REVIEW_IN_PROGRESS"
    status_reason: str = ""
    template: Template = EMPTY_TEMPLATE
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    termination_protection: bool = False
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def is_deleted(self) -> bool:
        return self.status == "DELETE_COMPLETE"

    def set_status(self, status: str, reason: str = "") -> None:
        """Move the stack on, and say so in its events."""
        self.status, self.status_reason = status, reason
        self.add_event(
            logical_id=self.name,
            physical_id=self.stack_id,
            resource_type="AWS::CloudFormation::Stack",
            status=status,
            reason=reason,
        )

    def add_event(
        self, *, logical_id: str, physical_id: str, resource_type: str, status: str, reason: str = ""
    ) -> None:
        """Add a line to the history."""
        # The CLI sorts by milliseconds, so that no two events may share one.
        earliest = self.events[0].timestamp + _MILLISECOND if self.events else self.created
        event = Event(
            event_id=str(uuid.uuid4()),
            timestamp=max(datetime.now(UTC), earliest),
            logical_id=logical_id,
            physical_id=physical_id,
            resource_type=resource_type,
            status=status,
            reason=reason,
        )
        self.events.insert(0, event)


def parse_body(body: str) -> dict[str, Any]:
    """A template as the CLI sends it: JSON from its assets, YAML from its own bootstrap template."""
    document = json.loads(body) if body.lstrip().startswith("{") else yaml.safe_load(body)
    _refuse_unknown_names(document)
    return dict(document)


def _refuse_unknown_names(document: Mapping[str, Any]) -> None:
    declared = {*document.get("Resources", {}), *document.get("Parameters", {})}
    sections = (document.get("Resources", {}), document.get("Outputs", {}))
    read = {name for section in sections for name in referenced_names(section)}
    unresolved = sorted(name for name in read - declared if not name.startswith("AWS::"))
    if unresolved:
        raise ValidationError(
            f"Template format error: Unresolved resource dependencies {unresolved} in the template"
        )
