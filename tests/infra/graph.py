"""The order in which CloudFormation creates resources, as a graph read from templates.

Inside a stack a resource waits for what it references or names in DependsOn. Between stacks the whole later
stack waits for the whole earlier one. Deletion runs along the same edges the other way.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.infra.conftest import Template

_VARIABLE = re.compile(r"\$\{([A-Za-z0-9]+)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """Resources of all stacks and what each waits for."""

    templates: Mapping[str, Template]
    stacks_before: Mapping[str, set[str]]

    def find(self, part: str, resource_type: str, name: str = "", **properties: Any) -> list[str]:
        """Logical ids in one stack by type, by a part of the id, by property values."""
        return [
            logical_id
            for logical_id, resource in self.templates[part]["Resources"].items()
            if resource["Type"] == resource_type
            and name in logical_id
            and all(resource["Properties"].get(key) == value for key, value in properties.items())
        ]

    def waits_for(self, later: tuple[str, str], earlier: tuple[str, str]) -> bool:
        """Whether (part, logical id) `later` is created after `earlier`, and deleted before it."""
        part, logical_id = later
        earlier_part, earlier_id = earlier
        if part != earlier_part:
            return earlier_part in self.stacks_before[part]
        return earlier_id in _reachable(self, part, logical_id)

    def direct(self, part: str, logical_id: str) -> set[str]:
        resource = self.templates[part]["Resources"][logical_id]
        named = resource.get("DependsOn", [])
        mentioned = {*([named] if isinstance(named, str) else named), *_mentioned(resource["Properties"])}
        return mentioned & set(self.templates[part]["Resources"]) - {logical_id}

    def cycle(self, part: str) -> list[str]:
        """Resources of a stack that wait for themselves."""
        return [
            logical_id
            for logical_id in self.templates[part]["Resources"]
            if any(logical_id in _reachable(self, part, each) for each in self.direct(part, logical_id))
        ]


@cache
def _reachable(graph: Graph, part: str, logical_id: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [logical_id]
    while waiting:
        for found in graph.direct(part, waiting.pop()) - seen:
            seen.add(found)
            waiting.append(found)
    return frozenset(seen)


def _mentioned(value: Any) -> Iterator[str]:
    """Logical ids that a property value refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _mentioned(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _referred(key, item)
            yield from _mentioned(item)


def _referred(function: str, argument: Any) -> Iterator[str]:
    if function == "Ref":
        yield argument
    elif function == "Fn::GetAtt":
        yield argument[0] if isinstance(argument, list) else argument.partition(".")[0]
    elif function == "Fn::Sub":
        yield from _VARIABLE.findall(argument if isinstance(argument, str) else argument[0])
