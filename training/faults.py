"""How a wrong choice is reported: a line per fault with field, value, rule and remedy."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One reason why a job cannot run as asked."""

    field: str
    """Path in the profile, as `maze.max_turns`."""
    value: object
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field} = {str(self.value)[:80]}: {self.rule}. {self.remedy}"


class JobError(Exception):
    """The job cannot go on; the message says what happened and what to do."""


class ConfigError(Exception):
    """The job cannot run as asked; the message has a line per fault."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def faults_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    """Pydantic's findings as faults; the remedy is the field's own documentation."""
    for detail in error.errors(include_url=False):
        path = [str(part) for part in detail["loc"]]
        section = _section(model, path[:-1])
        known = section.model_fields
        if detail["type"] == "extra_forbidden":
            rule, remedy = "is not a known key", f"Remove it; known here: {', '.join(sorted(known))}."
        else:
            rule = "is required" if detail["type"] == "missing" else _lower_first(detail["msg"])
            remedy = (known[path[-1]].description if path and path[-1] in known else section.__doc__) or ""
        value = "(missing)" if detail["type"] == "missing" else detail["input"]
        yield Fault(
            field=".".join(path) or "(profile)", value=value, rule=rule, remedy=" ".join(remedy.split())
        )


def _lower_first(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _section(model: type[BaseModel], path: Iterable[str]) -> type[BaseModel]:
    for key in path:
        annotation: Any = model.model_fields[key].annotation if key in model.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
    return model
