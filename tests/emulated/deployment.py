"""One create, update or delete of one stack, in a random order that CloudFormation could also have chosen.

CloudFormation promises the order of Ref, GetAtt, Sub and DependsOn, and nothing else. Every run here draws
another legal order from its seed, so an edge that is missing from the template shows as a failure.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ops.resource_types import UnknownResourceType
from tests.emulated.account import Account, Action, Resource
from tests.emulated.failures import Faults, Operation, ResourceFailure
from tests.emulated.intrinsics import Resolver, TemplateError
from tests.emulated.stacks import Stack, StackResource, Template, ValidationError


class OperationFailed(Exception):
    """The operation failed as a whole and has to be rolled back."""


class Handlers(Protocol):
    """Creates, changes and deletes single resources."""

    def create(self, *, stack: Stack, logical_id: str, resource_type: str, properties: Any) -> Resource:
        """Make the resource or raise ResourceFailure."""

    def update(self, *, stack: Stack, resource: Resource, properties: Any) -> Resource:
        """Change the resource, or give the one that takes its place."""

    def replaces(self, *, resource: Resource, resource_type: str, properties: Any) -> list[str]:
        """The changed properties that need a new resource."""

    def delete(self, *, stack: Stack, resource: Resource) -> None:
        """Delete the resource or raise ResourceFailure."""


def random_order(
    dependencies: Mapping[str, frozenset[str]], chance: random.Random, *, done: Iterable[str] = ()
) -> Iterator[str]:
    """The keys in a random order in which each comes after what it depends on."""
    waiting = {name: needs - set(done) for name, needs in sorted(dependencies.items())}
    while waiting:
        ready = [name for name, needs in waiting.items() if not needs & waiting.keys()]
        if not ready:
            raise ValidationError(f"Circular dependency between resources: {sorted(waiting)}")
        name = chance.choice(ready)
        del waiting[name]
        yield name


@dataclass(frozen=True, kw_only=True)
class _Undo:
    """How to take one step back."""

    logical_id: str
    action: Action
    before: StackResource | None
    """The entry that the step changed or replaced."""


@dataclass(kw_only=True)
class Deployment:
    """Brings one stack to a template, or back, or away."""

    account: Account
    handlers: Handlers
    faults: Faults
    chance: random.Random
    stack: Stack
    users_of_export: Callable[[str], list[str]]
    """Export name -> names of the stacks that import it."""
    make_resolver: Callable[[Stack, Template], Resolver]
    _undo: list[_Undo] = field(default_factory=list)
    _superseded: list[StackResource] = field(default_factory=list)
    """Resources that a replacement took the place of; deleted once everything else succeeded."""

    def apply(self, template: Template) -> None:
        """Create, update and delete until the stack is what the template says, else roll back."""
        stack = self.stack
        verb = "CREATE" if stack.status == "REVIEW_IN_PROGRESS" else "UPDATE"
        previous = stack.template
        stack.set_status(f"{verb}_IN_PROGRESS", "User Initiated")
        resolver = self.make_resolver(stack, template)
        try:
            self._converge_all(template, resolver)
            stack.template = template
            self._publish_outputs(template, resolver)
        except OperationFailed as failure:
            self._roll_back(verb, previous, reason=str(failure))
            return
        self._clean_up(template)
        stack.set_status(f"{verb}_COMPLETE")

    def delete(self) -> None:
        """Delete what the stack made; what fails stays in the stack, with all that it depends on."""
        self.stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
        failed = self._delete_all(set(self.stack.resources), retain=True)
        if failed:
            names = ", ".join(sorted(failed))
            self.stack.set_status("DELETE_FAILED", f"The following resource(s) failed to delete: [{names}].")
            return
        self.stack.exports, self.stack.imports = {}, set()
        self.stack.set_status("DELETE_COMPLETE")

    # --- forward ------------------------------------------------------------------------------------------

    def _converge_all(self, template: Template, resolver: Resolver) -> None:
        dependencies = template.dependencies()
        for logical_id in random_order(dependencies, self.chance):
            declaration = template.resources[logical_id]
            try:
                self._converge(logical_id, declaration, dependencies[logical_id], resolver)
            except (ResourceFailure, TemplateError, UnknownResourceType) as error:
                if isinstance(error, ResourceFailure) and error.half_made:
                    self._enter(logical_id, declaration, dependencies[logical_id], error.half_made)
                self._event(logical_id, declaration["Type"], f"{self._verb(logical_id)}_FAILED", str(error))
                raise OperationFailed(
                    f"The following resource(s) failed to create or update: [{logical_id}]."
                ) from error

    def _converge(
        self, logical_id: str, declaration: Mapping[str, Any], needs: frozenset[str], resolver: Resolver
    ) -> None:
        properties = resolver.resolve(declaration.get("Properties", {}))
        current = self.stack.resources.get(logical_id)
        if current is None:
            self._create(logical_id, declaration, needs, properties)
            return
        resource_type = declaration["Type"]
        if properties == current.resource.properties and resource_type == current.resource.resource_type:
            self._enter(logical_id, declaration, needs, current.resource, status=current.status)
            return
        replacing = self.handlers.replaces(
            resource=current.resource, resource_type=resource_type, properties=properties
        )
        if replacing:
            self._superseded.append(current)
            self._create(logical_id, declaration, needs, properties, replaced=current)
            return
        self._update(logical_id, declaration, needs, properties, current)

    def _create(
        self,
        logical_id: str,
        declaration: Mapping[str, Any],
        needs: frozenset[str],
        properties: Mapping[str, Any],
        *,
        replaced: StackResource | None = None,
    ) -> None:
        resource_type = declaration["Type"]
        self._event(logical_id, resource_type, "CREATE_IN_PROGRESS")
        action = Action.REPLACE if replaced else Action.CREATE
        self._undo.append(_Undo(logical_id=logical_id, action=action, before=replaced))
        self._check("create", logical_id, half_done=False)
        resource = self.handlers.create(
            stack=self.stack, logical_id=logical_id, resource_type=resource_type, properties=properties
        )
        self.account.record(action, resource)
        self._enter(logical_id, declaration, needs, resource)
        self._check("create", logical_id, half_done=True)
        self._event(logical_id, resource_type, "CREATE_COMPLETE")

    def _update(
        self,
        logical_id: str,
        declaration: Mapping[str, Any],
        needs: frozenset[str],
        properties: Mapping[str, Any],
        current: StackResource,
    ) -> None:
        resource_type = declaration["Type"]
        self._event(logical_id, resource_type, "UPDATE_IN_PROGRESS")
        before = StackResource(**vars(current))
        self._undo.append(_Undo(logical_id=logical_id, action=Action.UPDATE, before=before))
        self._check("update", logical_id, half_done=False)
        resource = self.handlers.update(stack=self.stack, resource=current.resource, properties=properties)
        if resource.key != current.resource.key:
            self._superseded.append(before)
        self.account.record(Action.UPDATE, resource)
        self._enter(logical_id, declaration, needs, resource, status="UPDATE_COMPLETE")
        self._check("update", logical_id, half_done=True)
        self._event(logical_id, resource_type, "UPDATE_COMPLETE")

    def _enter(
        self,
        logical_id: str,
        declaration: Mapping[str, Any],
        needs: frozenset[str],
        resource: Resource,
        *,
        status: str = "CREATE_COMPLETE",
    ) -> None:
        self.stack.resources[logical_id] = StackResource(
            resource=resource,
            dependencies=needs,
            deletion_policy=declaration.get("DeletionPolicy", "Delete"),
            update_replace_policy=declaration.get("UpdateReplacePolicy", "Delete"),
            status=status,
        )

    def _publish_outputs(self, template: Template, resolver: Resolver) -> None:
        try:
            outputs, exports = _outputs(template, resolver)
        except TemplateError as error:
            raise OperationFailed(str(error)) from error
        for name, value in self.stack.exports.items():
            users = self.users_of_export(name) if exports.get(name) != value else []
            if users:
                raise OperationFailed(f"Export {name} cannot be updated as it is in use by {users}")
        self.stack.outputs, self.stack.exports = outputs, exports

    def _clean_up(self, template: Template) -> None:
        """Delete what was replaced or is no longer declared; a failure here leaves it behind, unowned."""
        for entry in reversed(self._superseded):
            if entry.update_replace_policy == "Retain":
                self.account.record(Action.RETAIN, entry.resource)
            else:
                self._delete_entry(entry)
        dropped = self.stack.resources.keys() - template.resources.keys()
        failed = self._delete_all(set(dropped), retain=True)
        for logical_id in failed:
            del self.stack.resources[logical_id]

    # --- back ---------------------------------------------------------------------------------------------

    def _roll_back(self, verb: str, previous: Template, *, reason: str) -> None:
        prefix = "ROLLBACK" if verb == "CREATE" else "UPDATE_ROLLBACK"
        self.stack.set_status(f"{prefix}_IN_PROGRESS", reason)
        self.stack.template = previous
        if verb == "CREATE":
            failed = self._delete_all(set(self.stack.resources), retain=True, creating=True)
        else:
            failed = self._step_back()
        self.stack.set_status(f"{prefix}_FAILED" if failed else f"{prefix}_COMPLETE")

    def _step_back(self) -> set[str]:
        """Undo an update: first the changes, newest first, then delete what is new."""
        new: set[str] = set()
        for step in reversed(self._undo):
            if step.action is Action.CREATE:
                new.add(step.logical_id)
            elif step.action is Action.REPLACE:
                self._take_back(step)
            else:
                self._change_back(step)
        return self._delete_all(new & self.stack.resources.keys(), retain=False)

    def _take_back(self, step: _Undo) -> None:
        replacement = self.stack.resources[step.logical_id]
        assert step.before is not None
        self.stack.resources[step.logical_id] = step.before
        if replacement is not step.before:
            self._delete_entry(replacement)

    def _change_back(self, step: _Undo) -> None:
        assert step.before is not None
        current = self.stack.resources[step.logical_id]
        before = step.before.resource
        restored = self.handlers.update(
            stack=self.stack, resource=current.resource, properties=before.properties
        )
        self.account.record(Action.UPDATE, restored)
        if current.resource.key not in (restored.key, before.key):
            self._delete_entry(current)
        self.stack.resources[step.logical_id] = StackResource(**{**vars(step.before), "resource": restored})
        self._event(step.logical_id, restored.resource_type, "UPDATE_COMPLETE")

    # --- away ---------------------------------------------------------------------------------------------

    def _delete_all(self, logical_ids: set[str], *, retain: bool, creating: bool = False) -> set[str]:
        """Delete in a random order, users before what they use; gives the names that could not go."""
        remaining, failed = set(logical_ids), set[str]()
        while ready := sorted(self._without_users(remaining, blocked=failed)):
            logical_id = self.chance.choice(ready)
            remaining.discard(logical_id)
            entry = self.stack.resources[logical_id]
            if retain and _is_kept(entry, creating=creating):
                self.account.record(Action.RETAIN, entry.resource)
                self._event(logical_id, entry.resource.resource_type, "DELETE_SKIPPED")
                del self.stack.resources[logical_id]
            elif self._delete_entry(entry):
                del self.stack.resources[logical_id]
            else:
                failed.add(logical_id)
        return failed | remaining

    def _without_users(self, names: set[str], *, blocked: set[str]) -> list[str]:
        used = {need for user in names | blocked for need in self.stack.resources[user].dependencies}
        return [name for name in names if name not in used]

    def _delete_entry(self, entry: StackResource) -> bool:
        resource = entry.resource
        self._event(resource.logical_id, resource.resource_type, "DELETE_IN_PROGRESS", entry=entry)
        try:
            self._check("delete", resource.logical_id, half_done=False)
            self.handlers.delete(stack=self.stack, resource=resource)
        except ResourceFailure as failure:
            entry.status = "DELETE_FAILED"
            self._event(
                resource.logical_id, resource.resource_type, "DELETE_FAILED", str(failure), entry=entry
            )
            return False
        self.account.record(Action.DELETE, resource)
        self._event(resource.logical_id, resource.resource_type, "DELETE_COMPLETE", entry=entry)
        return True

    def _check(self, operation: Operation, logical_id: str, *, half_done: bool) -> None:
        self.faults.check(
            stack=self.stack.name, logical_id=logical_id, operation=operation, half_done=half_done
        )

    def _verb(self, logical_id: str) -> str:
        last = self._undo[-1] if self._undo else None
        updating = last and last.logical_id == logical_id and last.action is Action.UPDATE
        return "UPDATE" if updating else "CREATE"

    def _event(
        self,
        logical_id: str,
        resource_type: str,
        status: str,
        reason: str = "",
        *,
        entry: StackResource | None = None,
    ) -> None:
        entry = entry or self.stack.resources.get(logical_id)
        self.stack.add_event(
            logical_id=logical_id,
            physical_id=entry.physical_id if entry else "",
            resource_type=resource_type,
            status=status,
            reason=reason,
        )


def _is_kept(entry: StackResource, *, creating: bool) -> bool:
    return entry.deletion_policy == "Retain" or (
        entry.deletion_policy == "RetainExceptOnCreate" and not creating
    )


def _outputs(template: Template, resolver: Resolver) -> tuple[dict[str, Any], dict[str, str]]:
    outputs, exports = {}, {}
    for name, declaration in template.document.get("Outputs", {}).items():
        if "Condition" in declaration and not resolver.condition(declaration["Condition"]):
            continue
        outputs[name] = str(resolver.resolve(declaration["Value"]))
        if "Export" in declaration:
            exports[resolver.resolve(declaration["Export"]["Name"])] = outputs[name]
    return outputs, exports
