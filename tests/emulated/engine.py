"""CloudFormation as the CDK CLI knows it: change sets, stacks, their operations and their history."""

import random
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tests.emulated.account import Account
from tests.emulated.changes import Change, plan_changes
from tests.emulated.deployment import Deployment, Handlers
from tests.emulated.failures import Faults
from tests.emulated.intrinsics import Resolver, TemplateError
from tests.emulated.stacks import Stack, Template, ValidationError, parse_body

_SETTLED = ("COMPLETE", "FAILED", "REVIEW_IN_PROGRESS")
_UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS")


class ChangeSetNotFound(Exception):
    """No change set of this name; the CLI waits for exactly this error after it deleted one."""


@dataclass(kw_only=True)
class ChangeSet:
    """A planned operation on a stack."""

    name: str
    change_set_id: str
    stack: Stack
    template: Template
    tags: Mapping[str, str]
    changes: tuple[Change, ...]
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def is_empty(self) -> bool:
        same_outputs = self.template.document.get("Outputs") == self.stack.template.document.get("Outputs")
        return not self.changes and same_outputs and self.stack.status != "REVIEW_IN_PROGRESS"


@dataclass(kw_only=True)
class Engine:
    """One CloudFormation, of one account and region."""

    account: Account
    account_id: str
    region: str
    handlers: Handlers
    ssm_parameter: Callable[[str], str]
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    stacks: dict[str, Stack] = field(default_factory=dict)
    """By stack id, deleted ones too: the CLI asks for them after a deletion."""
    errors: list[Exception] = field(default_factory=list)
    """Faults of the emulator itself: a run that leaves any has shown nothing."""
    _change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    _operations: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Stacks take turns, so that a seed gives one order; independent stacks would run side by side on AWS."""

    # --- looking ------------------------------------------------------------------------------------------

    def find_stack(self, name: str) -> Stack:
        """The stack of this id, or the live stack of this name."""
        if name in self.stacks:
            return self.stacks[name]
        for stack in self.stacks.values():
            if stack.name == name and not stack.is_deleted:
                return stack
        raise ValidationError(f"Stack with id {name} does not exist")

    def live_stacks(self) -> list[Stack]:
        """Stacks that are not deleted."""
        return [stack for stack in self.stacks.values() if not stack.is_deleted]

    def find_change_set(self, name: str, stack_name: str | None) -> ChangeSet:
        """The change set of this id, or of this name on the stack."""
        for change_set in self._change_sets.values():
            by_name = change_set.name == name and stack_name in (
                change_set.stack.name,
                change_set.stack.stack_id,
            )
            if by_name or change_set.change_set_id == name:
                return change_set
        raise ChangeSetNotFound(f"ChangeSet [{name}] does not exist")

    # --- doing --------------------------------------------------------------------------------------------

    def create_change_set(
        self,
        *,
        name: str,
        stack_name: str,
        body: str,
        parameters: Mapping[str, str | None],
        tags: Mapping[str, str],
    ) -> ChangeSet:
        """Plan what would bring the stack to the template; a stack that does not exist is prepared.

        A parameter given as None keeps the value it has.
        """
        stack = self._stack_to_change(stack_name)
        template = self._template(stack, body, parameters)
        change_set_id = self._arn("changeSet", name)
        change_set = ChangeSet(
            name=name,
            change_set_id=change_set_id,
            stack=stack,
            template=template,
            tags=tags,
            changes=plan_changes(stack, template, self.handlers, self._resolver),
        )
        self._change_sets[change_set_id] = change_set
        return change_set

    def delete_change_set(self, change_set: ChangeSet) -> None:
        """Forget a plan."""
        del self._change_sets[change_set.change_set_id]

    def execute(self, change_set: ChangeSet) -> threading.Thread:
        """Start the planned operation; the thread ends with it."""
        self.delete_change_set(change_set)
        change_set.stack.tags = dict(change_set.tags)
        stack = change_set.stack
        return self._start(stack, lambda: self._deployment(stack).apply(change_set.template))

    def delete_stack(self, stack: Stack) -> threading.Thread:
        """Start the deletion of the stack."""
        if stack.termination_protection:
            raise ValidationError(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        for export in stack.exports:
            if users := self._users_of_export(export):
                raise ValidationError(f"Export {export} cannot be deleted as it is in use by {users}")
        return self._start(stack, self._deployment(stack).delete)

    def _start(self, stack: Stack, operation: Callable[[], None]) -> threading.Thread:
        def in_turn() -> None:
            with self._turn:
                try:
                    operation()
                except Exception as error:  # noqa: BLE001  shown by whoever waits; the CLI must not wait on
                    self.errors.append(error)
                    stack.set_status("UPDATE_FAILED", f"the emulator itself failed: {error!r}")

        thread = threading.Thread(target=in_turn)
        thread.start()
        return thread

    def _deployment(self, stack: Stack) -> Deployment:
        self._operations += 1
        return Deployment(
            account=self.account,
            handlers=self.handlers,
            faults=self.faults,
            chance=random.Random(f"{self.seed}/{self._operations}"),
            stack=stack,
            users_of_export=self._users_of_export,
            make_resolver=self._resolver,
        )

    def _users_of_export(self, name: str) -> list[str]:
        return [stack.name for stack in self.live_stacks() if name in stack.imports]

    # --- templates ----------------------------------------------------------------------------------------

    def _stack_to_change(self, name: str) -> Stack:
        live = [stack for stack in self.live_stacks() if name in (stack.name, stack.stack_id)]
        if not live:
            stack = Stack(name=name, stack_id=self._arn("stack", name))
            self.stacks[stack.stack_id] = stack
            return stack
        if live[0].status not in _UPDATABLE:
            raise ValidationError(f"Stack {name} is in {live[0].status} state and can not be updated.")
        return live[0]

    def _template(self, stack: Stack, body: str, given: Mapping[str, str | None]) -> Template:
        document = parse_body(body)
        raw = _raw_parameters(stack, document, given)
        declarations = document.get("Parameters", {})
        template = Template(
            body=body,
            document=document,
            given=raw,
            parameters={
                name: self._parameter_value(declarations[name]["Type"], value) for name, value in raw.items()
            },
            resources={},
        )
        resolver = self._resolver(stack, template)
        resources = {
            logical_id: declaration
            for logical_id, declaration in document.get("Resources", {}).items()
            if "Condition" not in declaration or resolver.condition(declaration["Condition"])
        }
        return replace(template, resources=resources)

    def _parameter_value(self, parameter_type: str, value: str) -> Any:
        if parameter_type.startswith("AWS::SSM::Parameter::Value"):
            return self.ssm_parameter(value)
        is_list = parameter_type == "CommaDelimitedList" or parameter_type.startswith("List<")
        return value.split(",") if is_list else value

    def _resolver(self, stack: Stack, template: Template) -> Resolver:
        def resource(logical_id: str) -> Any:
            if logical_id not in stack.resources:
                raise TemplateError(f"Resource {logical_id} is not there (yet): no reference can name it")
            return stack.resources[logical_id].resource

        def attribute(logical_id: str, name: str) -> Any:
            return self.attribute_of(resource(logical_id), name)

        def imported(export: str) -> str:
            stack.imports.add(export)
            return self._export(export)

        return Resolver(
            template=template.document,
            values={**self._pseudo_parameters(stack), **template.parameters},
            reference=lambda logical_id: resource(logical_id).identity.ref,
            attribute=attribute,
            imported=imported,
            stack_output=self._stack_output,
            ssm_parameter=self.ssm_parameter,
            zones=tuple(self.region + letter for letter in "abc"),
        )

    def attribute_of(self, resource: Any, name: str) -> Any:
        """What Fn::GetAtt gives."""
        attributes = resource.identity.attributes
        if name in attributes:
            return attributes[name]
        if name in resource.properties:
            return resource.properties[name]
        raise TemplateError(
            f"Attribute {name} of {resource.logical_id} ({resource.resource_type}) is unknown"
        )

    def _export(self, name: str) -> str:
        for stack in self.live_stacks():
            if name in stack.exports:
                return stack.exports[name]
        raise TemplateError(f"No export named {name} found.")

    def _stack_output(self, stack_name: str, output: str) -> Any:
        outputs = self.find_stack(stack_name).outputs
        if output not in outputs:
            raise TemplateError(f"Stack {stack_name} has no output {output}")
        return outputs[output]

    def _pseudo_parameters(self, stack: Stack) -> dict[str, Any]:
        return {
            "AWS::AccountId": self.account_id,
            "AWS::NotificationARNs": [],
            "AWS::Partition": "aws",
            "AWS::Region": self.region,
            "AWS::StackId": stack.stack_id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": "amazonaws.com",
        }

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:cloudformation:{self.region}:{self.account_id}:{kind}/{name}/{uuid.uuid4()}"


def _raw_parameters(
    stack: Stack, document: Mapping[str, Any], given: Mapping[str, str | None]
) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, declaration in document.get("Parameters", {}).items():
        value = given.get(name)
        if value is None:
            value = stack.template.given.get(name, declaration.get("Default"))
        if value is None:
            raise ValidationError(f"Parameters: [{name}] must have values")
        values[name] = str(value)
    return values
