"""The reference of all settings, from their own documentation: `python -m stacks`."""

import json
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stacks.settings import Section, Settings

INTRODUCTION = """\
# Settings

`cdk.json` holds named environments under `context.environments`; `--context environment=<name>` picks one.
Made by `make docs` from `stacks/settings.py`; what settings demand of each other is in `stacks/rules.py`.
"""


def reference() -> str:
    """Markdown: a table per section, in the order of the settings."""
    return "\n".join([INTRODUCTION, *_section("", Settings)])


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    title = f"`{path}`" if path else "An environment"
    yield f"## {title}\n\n{_flat(model.__doc__)}\n\n| setting | default | |\n|---|---|---|"
    for name, field in model.model_fields.items():
        yield f"| `{name}` | {_default(field)} | {_flat(field.description)} |"
    yield ""
    for name, field in model.model_fields.items():
        for inner in _sections_in(field.annotation):
            listed = "[]" if get_origin(field.annotation) is tuple else ""
            yield from _section(f"{path}.{name}{listed}".removeprefix("."), inner)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, Section):
        return "see below"
    return f"`{json.dumps(field.default, default=str)}`"


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    elif get_origin(annotation) in (tuple, Union, UnionType):
        for part in get_args(annotation):
            yield from _sections_in(part)


def _flat(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference())
