"""Drives an engine without the CDK CLI: for the many runs that ask nothing of the CLI itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.emulated.changes import Change
from tests.emulated.engine import ChangeSet, Engine
from tests.emulated.stacks import Stack, ValidationError
from tests.emulated.subject import Assembly


class DeploymentError(Exception):
    """A stack did not get where it should; the message has the reasons of its failed resources."""


def reasons(stack: Stack) -> list[str]:
    """What the failed resources said, oldest first."""
    return [
        f"{event.logical_id}: {event.reason}"
        for event in reversed(stack.events)
        if event.status.endswith("_FAILED") and event.logical_id != stack.name
    ]


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Deploys and deletes stacks one after the other, as the CLI's calls do."""

    engine: Engine

    def deploy(
        self,
        name: str,
        template: Mapping[str, Any],
        *,
        parameters: Mapping[str, str | None] | None = None,
    ) -> Stack:
        """Bring the stack to the template; a stack whose creation was rolled back is deleted first."""
        self._sweep_rolled_back(name)
        change_set = self.plan(name, template, parameters=parameters)
        self.engine.execute(change_set).join()
        self._refuse_faults_of_the_emulator()
        return change_set.stack

    def deploy_all(self, assembly: Assembly) -> None:
        """Deploy the stacks in the CLI's order; the first that fails is the error."""
        for name in assembly.stacks:
            stack = self.deploy(name, assembly.template(name))
            if stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
                raise DeploymentError(f"{name} is {stack.status}: " + "; ".join(reasons(stack)))

    def destroy_all(self, assembly: Assembly) -> None:
        """Delete the stacks in the reverse order; the first that fails is the error."""
        for name in reversed(assembly.stacks):
            stack = self.destroy(name)
            if not stack.is_deleted:
                raise DeploymentError(f"{name} is {stack.status}: " + "; ".join(reasons(stack)))

    def changes(self, name: str, template: Mapping[str, Any]) -> tuple[Change, ...]:
        """What a deployment would change."""
        change_set = self.plan(name, template)
        self.engine.delete_change_set(change_set)
        return change_set.changes

    def destroy(self, name: str) -> Stack:
        """Delete the stack."""
        stack = self.engine.find_stack(name)
        self.engine.delete_stack(stack).join()
        self._refuse_faults_of_the_emulator()
        return stack

    def plan(
        self,
        name: str,
        template: Mapping[str, Any],
        *,
        parameters: Mapping[str, str | None] | None = None,
    ) -> ChangeSet:
        """A change set that was not executed yet."""
        return self.engine.create_change_set(
            name="plan", stack_name=name, body=json.dumps(template), parameters=parameters or {}, tags={}
        )

    def _refuse_faults_of_the_emulator(self) -> None:
        if self.engine.errors:
            raise ExceptionGroup("the emulator itself failed", self.engine.errors)

    def _sweep_rolled_back(self, name: str) -> None:
        try:
            stack = self.engine.find_stack(name)
        except ValidationError:
            return
        if stack.status == "ROLLBACK_COMPLETE":
            self.engine.delete_stack(stack).join()
