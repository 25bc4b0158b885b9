"""What an operation would do, worked out before it is done: the content of a change set."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ops.resource_types import UnknownResourceType
from tests.emulated.deployment import Handlers, random_order
from tests.emulated.intrinsics import Resolver, TemplateError
from tests.emulated.stacks import Stack, StackResource, Template, ValidationError


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of a change set."""

    action: Literal["Add", "Modify", "Remove"]
    logical_id: str
    resource_type: str
    physical_id: str = ""
    replacement: Literal["True", "False"] = "False"
    properties: tuple[str, ...] = ()
    """Names of the properties that differ."""


def plan_changes(
    stack: Stack,
    template: Template,
    handlers: Handlers,
    make_resolver: Callable[[Stack, Template], Resolver],
) -> tuple[Change, ...]:
    """The changes in an order in which they could be made.

    A resource whose properties cannot be known yet, because they name one that is to be added or replaced,
    counts as changed.
    """
    unknown: set[str] = set()
    resolver, changes = _previewing(make_resolver(stack, template), unknown), list[Change]()
    for logical_id in random_order(template.dependencies(), random.Random(0)):
        declaration = template.resources[logical_id]
        current = stack.resources.get(logical_id)
        if current is None:
            changes.append(Change(action="Add", logical_id=logical_id, resource_type=declaration["Type"]))
            unknown.add(logical_id)
            continue
        change = _modification(current, declaration, resolver, handlers)
        if change:
            changes.append(change)
        if change and change.replacement == "True":
            unknown.add(logical_id)
    changes.extend(_removals(stack, template))
    return tuple(changes)


def _mark(logical_id: str, name: str) -> str:
    """Long enough for Fn::Select to take any part that templates take of an ARN."""
    return ":".join([f"<{logical_id}.{name} after the change>"] * 8)


def _previewing(resolver: Resolver, unknown: set[str]) -> Resolver:
    """The resolver, with a mark in place of what a resource that is still to be made would give."""

    def attribute(logical_id: str, name: str) -> Any:
        return _mark(logical_id, name) if logical_id in unknown else resolver.attribute(logical_id, name)

    def reference(logical_id: str) -> Any:
        return _mark(logical_id, "Ref") if logical_id in unknown else resolver.reference(logical_id)

    return replace(resolver, attribute=attribute, reference=reference)


def _modification(
    current: StackResource, declaration: Mapping[str, Any], resolver: Resolver, handlers: Handlers
) -> Change | None:
    resource, resource_type = current.resource, declaration["Type"]
    try:
        properties = resolver.resolve(declaration.get("Properties", {}))
        replaced = handlers.replaces(resource=resource, resource_type=resource_type, properties=properties)
    except (TemplateError, UnknownResourceType) as error:
        raise ValidationError(str(error)) from error
    if properties == resource.properties and resource_type == resource.resource_type:
        return None
    return Change(
        action="Modify",
        logical_id=resource.logical_id,
        resource_type=resource_type,
        physical_id=current.physical_id,
        replacement="True" if replaced else "False",
        properties=tuple(_differing(resource.properties, properties)),
    )


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _removals(stack: Stack, template: Template) -> list[Change]:
    return [
        Change(
            action="Remove",
            logical_id=logical_id,
            resource_type=entry.resource.resource_type,
            physical_id=entry.physical_id,
        )
        for logical_id, entry in stack.resources.items()
        if logical_id not in template.resources
    ]
