"""How a single resource fails, by AWS's rules or on purpose."""

from dataclasses import dataclass, field
from typing import Literal

from tests.emulated.account import Resource

Operation = Literal["create", "update", "delete"]


class ResourceFailure(Exception):
    """A resource could not be made, changed or deleted; the message becomes the reason in the events."""

    def __init__(self, reason: str, *, half_made: Resource | None = None) -> None:
        super().__init__(reason)
        self.half_made = half_made
        """What exists although the creation failed; CloudFormation deletes it when it rolls back."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One operation on one resource is to fail, once."""

    stack: str
    logical_id: str
    operation: Operation
    half_done: bool = False
    """Whether the work is done all the same, as for a HyperPod cluster that exists but gets no capacity."""


@dataclass
class Faults:
    """The faults that are still to come."""

    armed: set[Fault] = field(default_factory=set)

    def arm(self, fault: Fault) -> None:
        """Let the fault happen at its next opportunity."""
        self.armed.add(fault)

    def check(self, *, stack: str, logical_id: str, operation: Operation, half_done: bool) -> None:
        """Raise the failure that was armed for this moment, if any."""
        fault = Fault(stack=stack, logical_id=logical_id, operation=operation, half_done=half_done)
        if fault in self.armed:
            self.armed.discard(fault)
            raise ResourceFailure(f"Injected failure: {operation} of {logical_id}")
