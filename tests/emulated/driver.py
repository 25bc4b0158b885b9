"""Drives an engine without the CDK CLI: for the many runs that ask nothing of the CLI itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.emulated.changes import Change
from tests.emulated.engine import ChangeSet, Engine
from tests.emulated.stacks import Stack, ValidationError


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
        return change_set.stack

    def changes(self, name: str, template: Mapping[str, Any]) -> tuple[Change, ...]:
        """What a deployment would change."""
        change_set = self.plan(name, template)
        self.engine.delete_change_set(change_set)
        return change_set.changes

    def destroy(self, name: str) -> Stack:
        """Delete the stack."""
        stack = self.engine.find_stack(name)
        self.engine.delete_stack(stack).join()
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

    def _sweep_rolled_back(self, name: str) -> None:
        try:
            stack = self.engine.find_stack(name)
        except ValidationError:
            return
        if stack.status == "ROLLBACK_COMPLETE":
            self.engine.delete_stack(stack).join()
