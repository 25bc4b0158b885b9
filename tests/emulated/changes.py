"""What an operation would do, worked out before it is done: the content of a change set."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.emulated.deployment import Handlers, random_order
from tests.emulated.intrinsics import Resolver, TemplateError
from tests.emulated.schemas import UnknownResourceType
from tests.emulated.stacks import Stack, StackResource, Template, ValidationError


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of a change set."""

    action: Literal["Add", "Modify", "Remove"]
    logical_id: str
    resource_type: str
    physical_id: str = ""
    replacement: Literal["True", "False", "Conditional"] = "False"
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
    resolver, changes = make_resolver(stack, template), list[Change]()
    unknown: set[str] = set()
    dependencies = template.dependencies()
    for logical_id in random_order(dependencies, random.Random(0)):
        declaration = template.resources[logical_id]
        current = stack.resources.get(logical_id)
        if current is None:
            changes.append(Change(action="Add", logical_id=logical_id, resource_type=declaration["Type"]))
            unknown.add(logical_id)
            continue
        change = _modification(
            current, declaration, resolver, handlers, unsure=unknown & dependencies[logical_id]
        )
        if change:
            changes.append(change)
        if change and change.replacement != "False":
            unknown.add(logical_id)
    changes.extend(_removals(stack, template))
    return tuple(changes)


def _modification(
    current: StackResource,
    declaration: Mapping[str, Any],
    resolver: Resolver,
    handlers: Handlers,
    *,
    unsure: set[str],
) -> Change | None:
    resource = current.resource
    try:
        properties = resolver.resolve(declaration.get("Properties", {}))
        replaced = handlers.replaces(
            resource=resource, resource_type=declaration["Type"], properties=properties
        )
    except (TemplateError, UnknownResourceType) as error:
        if not unsure:
            raise ValidationError(str(error)) from error
        properties, replaced = {}, []
    if properties == resource.properties and declaration["Type"] == resource.resource_type and not unsure:
        return None
    return Change(
        action="Modify",
        logical_id=resource.logical_id,
        resource_type=declaration["Type"],
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
