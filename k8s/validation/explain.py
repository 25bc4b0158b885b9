"""JSON Schema errors in words that say what to do."""

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from k8s.validation.findings import Fault, join_path


def explained_faults(validator: Draft202012Validator, value: Any, *prefix: str) -> Iterator[Fault]:
    """Every error of a value against a schema; `prefix` says where the value lies in its manifest."""
    for error in validator.iter_errors(value):
        explain = _EXPLANATIONS.get(str(error.validator), _anything)
        yield explain(
            join_path((*prefix, *error.absolute_path)), error.instance, error.validator_value, error
        )


def _unknown_field(path: str, instance: Any, _wanted: Any, error: ValidationError) -> Fault:
    known = sorted(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
    unknown = next(field for field in instance if field not in known)
    close = difflib.get_close_matches(unknown, known, n=1, cutoff=0.5)
    return Fault(
        unknown if path == "(root)" else f"{path}.{unknown}",
        "is no field of this object; a server that is not strict drops it silently",
        f"Did you mean {close[0]}?" if close else f"The fields are {', '.join(known)}.",
    )


def _type(path: str, instance: Any, wanted: Any, _error: ValidationError) -> Fault:
    types = [wanted] if isinstance(wanted, str) else [name for name in wanted if name != "null"]
    return Fault(
        path,
        f"{instance!r} is {_json_type(instance)} and must be {' or '.join(types)}",
        "Put it in quotes." if types == ["string"] else f"Write {' or '.join(types)}, without quotes.",
    )


def _required(path: str, instance: Any, wanted: Any, _error: ValidationError) -> Fault:
    missing = ", ".join(field for field in wanted if field not in instance)
    return Fault(path, f"{missing} is missing and required", f"Add {missing}.")


def _choice(path: str, instance: Any, wanted: Any, _error: ValidationError) -> Fault:
    choices = ", ".join(str(choice) for choice in wanted)
    return Fault(path, f"{instance!r} is not one of {choices}", f"Use one of: {choices}.")


def _pattern(path: str, instance: Any, wanted: Any, _error: ValidationError) -> Fault:
    return Fault(path, f"{instance!r} does not match {wanted}", "An amount is written like 500m, 2 or 440Gi.")


def _anything(path: str, _instance: Any, wanted: Any, error: ValidationError) -> Fault:
    return Fault(path, error.message, f"The schema demands {error.validator}: {str(wanted)[:200]}")


_EXPLANATIONS: dict[str, Callable[[str, Any, Any, ValidationError], Fault]] = {
    "additionalProperties": _unknown_field,
    "type": _type,
    "required": _required,
    "enum": _choice,
    "pattern": _pattern,
}


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")
