"""Where two JSON values differ, path by path."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ABSENT = object()
"""Stands for a value that one side does not have; null is a value."""
LONGEST = 60
"""Characters of a value that are shown."""
_CONTEXT = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that differs; texts are shortened to where they differ."""

    path: str
    before: str
    after: str


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """The smallest values that differ. Items of lists match by place or, when some came or went, by value."""
    if before == after:
        return
    parts = _parts(before, after)
    if parts is None:
        one, other = shown(before, after)
        yield Difference(path=path.removeprefix("."), before=one, after=other)
        return
    for name, inner_before, inner_after in parts:
        yield from differences(inner_before, inner_after, f"{path}{name}")


def _parts(before: Any, after: Any) -> list[tuple[str, Any, Any]] | None:
    """What both consist of, to compare part by part; None of scalars and of values of two kinds."""
    if _are(dict, before, after):
        old, new = _or_empty(before, {}), _or_empty(after, {})
        return [(f".{key}", old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new}]
    if _are(list, before, after):
        return [(f"[{i}]", *pair) for i, *pair in _pairs(_or_empty(before, []), _or_empty(after, []))]
    return None


def _are(kind: type, before: Any, after: Any) -> bool:
    """Whether both are of the kind; a side that is absent counts as an empty one, if the other is not."""
    present = [value for value in (before, after) if value is not ABSENT]
    return all(isinstance(value, kind) for value in present) and any(present)


def _or_empty(value: Any, empty: Any) -> Any:
    return empty if value is ABSENT else value


def _pairs(before: list[Any], after: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Place and items to compare; the place is that on the side that has the item."""
    if len(before) == len(after):
        yield from zip(range(len(before)), before, after, strict=True)
        return
    yield from ((index, item, ABSENT) for index, item in enumerate(before) if item not in after)
    yield from ((index, ABSENT, item) for index, item in enumerate(after) if item not in before)


def shown(before: Any, after: Any) -> tuple[str, str]:
    """Both as short texts. Of long ones the part around their first difference is shown."""
    one, other = _text(before), _text(after)
    if max(len(one), len(other)) <= LONGEST:
        return one, other
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, common - _CONTEXT)
    return _cut(one, start), _cut(other, start)


def _text(value: Any) -> str:
    return "absent" if value is ABSENT else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, start: int) -> str:
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"
