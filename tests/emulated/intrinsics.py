"""CloudFormation's template language: which resources a value refers to, and what it resolves to."""

import base64
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NO_VALUE = object()
"""What `AWS::NoValue` resolves to; the property or list item that holds it disappears."""

_PLACEHOLDER = re.compile(r"\$\{([^!}][^}]*)\}")
_LITERAL_PLACEHOLDER = re.compile(r"\$\{!([^}]*)\}")
_SSM_REFERENCE = re.compile(r"\{\{resolve:ssm:([^:}]+)(?::\d+)?\}\}")


class TemplateError(Exception):
    """The template cannot be evaluated: CloudFormation would refuse the change set or fail the resource."""


def referenced_names(value: Any) -> Iterator[str]:
    """Names of the parameters and resources that `value` reads through Ref, GetAtt and Sub."""
    if isinstance(value, list):
        for item in value:
            yield from referenced_names(item)
    elif isinstance(value, dict):
        for key, argument in value.items():
            yield from _names_of_function(key, argument)


def _names_of_function(key: str, argument: Any) -> Iterator[str]:
    if key == "Ref":
        yield argument
    elif key == "Fn::GetAtt":
        yield _logical_id_and_attribute(argument)[0]
    elif key == "Fn::Sub":
        text, variables = (argument, {}) if isinstance(argument, str) else argument
        yield from (name.split(".")[0] for name in _PLACEHOLDER.findall(text) if name not in variables)
        yield from referenced_names(variables)
    else:
        yield from referenced_names(argument)


def _logical_id_and_attribute(argument: str | list[str]) -> tuple[str, str]:
    parts = argument.split(".") if isinstance(argument, str) else argument
    return parts[0], ".".join(parts[1:])


@dataclass(frozen=True, kw_only=True)
class Resolver:
    """Evaluates the functions of one template against the current state of its stack."""

    template: Mapping[str, Any]
    values: Mapping[str, Any]
    """Values of parameters and pseudo parameters."""
    reference: Callable[[str], Any]
    """Logical id -> what Ref gives; raises TemplateError for a resource that does not exist yet."""
    attribute: Callable[[str, str], Any]
    """Logical id and attribute -> what GetAtt gives."""
    imported: Callable[[str], Any]
    """Export name -> value."""
    stack_output: Callable[[str, str], Any]
    """Stack name and output key -> value, for CDK's weak cross-stack references."""
    ssm_parameter: Callable[[str], str]
    zones: tuple[str, ...]
    _functions: dict[str, Callable[[Any], Any]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._functions.update(
            {
                "Ref": self._ref,
                "Fn::GetAtt": lambda argument: self.attribute(*_logical_id_and_attribute(argument)),
                "Fn::Sub": self._sub,
                "Fn::Join": self._join,
                "Fn::Select": self._select,
                "Fn::Split": self._split,
                "Fn::If": self._if,
                "Fn::Equals": lambda argument: len({str(item) for item in self.resolve(argument)}) == 1,
                "Fn::And": lambda argument: all(self.resolve(argument)),
                "Fn::Or": lambda argument: any(self.resolve(argument)),
                "Fn::Not": lambda argument: not self.resolve(argument)[0],
                "Condition": self.condition,
                "Fn::FindInMap": self._find_in_map,
                "Fn::Base64": lambda argument: base64.b64encode(self.resolve(argument).encode()).decode(),
                "Fn::GetAZs": lambda _: list(self.zones),
                "Fn::Cidr": self._cidr,
                "Fn::ImportValue": lambda argument: self.imported(self.resolve(argument)),
                "Fn::GetStackOutput": self._get_stack_output,
            }
        )

    def resolve(self, value: Any) -> Any:
        """`value` with every function evaluated; properties set to `AWS::NoValue` are gone."""
        if isinstance(value, str):
            return _SSM_REFERENCE.sub(lambda match: self.ssm_parameter(match[1]), value)
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not NO_VALUE]
        if isinstance(value, dict):
            return self._resolve_object(value)
        return value

    def _resolve_object(self, value: Mapping[str, Any]) -> Any:
        if len(value) == 1:
            ((key, argument),) = value.items()
            # IAM statements have a property Condition, which is an object and no function.
            if key in self._functions and (key != "Condition" or isinstance(argument, str)):
                return self._functions[key](argument)
            if key.startswith("Fn::"):
                raise TemplateError(f"{key} is not implemented by the emulated CloudFormation")
        resolved = {key: self.resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item is not NO_VALUE}

    def condition(self, name: str) -> bool:
        """Whether the named condition of the template holds."""
        return bool(self.resolve(self.template["Conditions"][name]))

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        return self.values[name] if name in self.values else self.reference(name)

    def _sub(self, argument: str | list[Any]) -> str:
        text, variables = (argument, {}) if isinstance(argument, str) else argument

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if name in variables:
                return str(self.resolve(variables[name]))
            logical_id, _, attribute = name.partition(".")
            return str(self.attribute(logical_id, attribute) if attribute else self._ref(name))

        return _LITERAL_PLACEHOLDER.sub(r"${\1}", _PLACEHOLDER.sub(value_of, text))

    def _join(self, argument: list[Any]) -> str:
        delimiter, items = argument
        return str(delimiter).join(str(item) for item in self.resolve(items))

    def _select(self, argument: list[Any]) -> Any:
        index, items = self.resolve(argument)
        if int(index) >= len(items):
            raise TemplateError(f"Fn::Select cannot take item {index} of {items}")
        return items[int(index)]

    def _split(self, argument: list[Any]) -> list[str]:
        delimiter, text = self.resolve(argument)
        return str(text).split(delimiter)

    def _if(self, argument: list[Any]) -> Any:
        name, then, otherwise = argument
        return self.resolve(then if self.condition(name) else otherwise)

    def _find_in_map(self, argument: list[Any]) -> Any:
        name, top, second = self.resolve(argument[:3])
        return self.template["Mappings"][name][top][second]

    def _cidr(self, argument: list[Any]) -> list[str]:
        block, count, host_bits = self.resolve(argument)
        subnets = ipaddress.ip_network(block).subnets(new_prefix=32 - int(host_bits))
        return [str(subnet) for subnet, _ in zip(subnets, range(int(count)), strict=False)]

    def _get_stack_output(self, argument: Mapping[str, Any]) -> Any:
        resolved = self.resolve(dict(argument))
        return self.stack_output(resolved["StackName"], resolved["OutputName"])
