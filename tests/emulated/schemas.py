"""Which properties CloudFormation would refuse, by the registry's schemas (`ops.resource_types`)."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import regex
from jsonschema import Draft7Validator, TypeChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from ops.resource_types import resource_schema

_BOOLEANS = ("true", "false")


def _is_boolean(_: TypeChecker, value: Any) -> bool:
    return isinstance(value, bool) or value in _BOOLEANS


def _is_integer(_: TypeChecker, value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip("-").isdigit()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: TypeChecker, value: Any) -> bool:
    return isinstance(value, float) or _is_integer(checker, value)


def _is_string(_: TypeChecker, value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    # Registry patterns use Unicode classes such as \p{L}, which the standard library's engine lacks.
    if isinstance(instance, str) and not regex.search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _on_converted(keyword: str, convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """The keyword's check, on the instance as CloudFormation would convert it."""
    check = Draft7Validator.VALIDATORS[keyword]

    def on_converted(validator: Any, limit: Any, instance: Any, schema: Any) -> Any:
        is_scalar = isinstance(instance, str | int | float)
        return check(validator, limit, convert(instance) if is_scalar else instance, schema)

    return on_converted


def _number(value: Any) -> Any:
    return float(value) if _is_integer(TypeChecker(), value) else value


# CloudFormation converts between scalars ("3" for 3, true for "true") before it asks the resource's handler.
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft7Validator,
    validators={
        "pattern": _pattern,
        **{keyword: _on_converted(keyword, _number) for keyword in ("maximum", "minimum")},
        **{keyword: _on_converted(keyword, str) for keyword in ("maxLength", "minLength")},
    },
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many(
        {"boolean": _is_boolean, "integer": _is_integer, "number": _is_number, "string": _is_string}
    ),
)


@cache
def _validator(resource_type: str, region: str) -> Any:
    return _Validator(resource_schema(resource_type, region=region).document)


def property_faults(resource_type: str, properties: Mapping[str, Any], *, region: str) -> list[str]:
    """Why the resource's handler would refuse these resolved properties; empty when it would not."""
    found = _validator(resource_type, region).iter_errors(properties)
    errors = sorted(found, key=lambda error: list(map(str, error.path)))
    faults = [f"#/{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in errors]
    schema = resource_schema(resource_type, region=region)
    for name in schema.read_only:
        if name in properties and name not in schema.create_only:
            faults.append(f"#/{name}: encountered a read-only property")
    return faults
