"""How a wrong setting is reported: one line per fault with field, value, rule and remedy."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why the settings cannot be deployed."""

    field: str
    """Path in cdk.json, as `instance_groups[0].instance_count`."""
    value: object
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field} = {_shorten(self.value)}: {self.rule}. {self.remedy}"


class SettingsError(Exception):
    """The settings cannot be deployed; the message has a line per fault."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def faults_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    """Translate pydantic's findings; the remedy is the field's own documentation."""
    details = error.errors(include_url=False)
    for detail in details:
        if _counts_only_valid_items(detail, details):
            continue
        yield _unknown_key(detail, model) if detail["type"] == "extra_forbidden" else _broken(detail, model)


def _counts_only_valid_items(detail: ErrorDetails, details: Iterable[ErrorDetails]) -> bool:
    """Whether pydantic calls a list too short because its items are invalid, which it reports anyway."""
    path = detail["loc"]
    return detail["type"] == "too_short" and any(
        other["loc"][: len(path)] == path and other is not detail for other in details
    )


def _unknown_key(detail: ErrorDetails, model: type[BaseModel]) -> Fault:
    *parents, key = detail["loc"]
    known = sorted(_model_at(parents, model).model_fields)
    close = get_close_matches(str(key), known, n=1)
    remedy = f"Did you mean {close[0]}?" if close else f"Remove it; known here: {', '.join(known)}."
    return Fault(field=_path(detail["loc"]), value=detail["input"], rule="is not a setting", remedy=remedy)


def _broken(detail: ErrorDetails, model: type[BaseModel]) -> Fault:
    missing = detail["type"] == "missing"
    return Fault(
        field=_path(detail["loc"]),
        value="(missing)" if missing else detail["input"],
        rule="is required" if missing else _rule(detail["msg"]),
        remedy=_documentation(detail["loc"], model),
    )


def _rule(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:]


def _documentation(loc: Iterable[int | str], model: type[BaseModel]) -> str:
    keys = [part for part in loc if isinstance(part, str)]
    parent = _model_at(keys[:-1], model)
    field = parent.model_fields.get(keys[-1]) if keys else None
    text = (field.description if field else None) or parent.__doc__ or ""
    return " ".join(text.split())


def _model_at(loc: Iterable[int | str], model: type[BaseModel]) -> type[BaseModel]:
    """The section that a path leads to; list indexes and keys of plain mappings do not lead further down."""
    for key in loc:
        if isinstance(key, str) and key in model.model_fields:
            model = _section_in(model.model_fields[key].annotation) or model
    return model


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _section_in(part))), None)


def _path(loc: Iterable[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".") or "(environment)"


def _shorten(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
