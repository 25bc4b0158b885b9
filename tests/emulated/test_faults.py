"""Any one resource may fail to be created or deleted: nothing stays behind, and the next try succeeds.

The quick run takes a sample of one stack; `make emulated` takes every resource of every stack.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ops.resource_types import is_custom
from tests.emulated.driver import reasons
from tests.emulated.emulator import Emulator, emulated_aws
from tests.emulated.failures import Fault
from tests.emulated.ledger import Ledger, Row
from tests.emulated.subject import Assembly, settings_of
from tests.emulated.synthesis import Synthesize

REGION = "us-east-2"
PARTS = ("network", "storage", "registry", "cluster", "hyperpod", "addons", "observability", "ray")
SAMPLE = 8
"""Resources of the quick run."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One stack on top of those that it needs."""

    aws: Emulator
    stack: str
    template: dict[str, Any]

    def state(self) -> tuple[set[tuple[str, ...]], dict[str, Any]]:
        """Everything that a failed operation must leave as it was."""
        clusters = self.aws.account.of_type("AWS::EKS::Cluster")
        inside = {cluster.identity.ref: self._content(cluster.identity.ref) for cluster in clusters}
        return set(self.aws.account.resources), inside

    def _content(self, cluster: str) -> dict[str, Any]:
        """What is in a cluster, but for namespaces that Helm made: it never deletes them."""
        state = self.aws.kubernetes.state(cluster)
        return {**state, "objects": {key: manifest for key, manifest in state["objects"].items() if manifest}}

    def deploy(self) -> str:
        """Deploy the stack and give its status with what failed."""
        stack = self.aws.driver.deploy(self.stack, self.template)
        return " ".join([stack.status, *reasons(stack)])

    def destroy(self) -> str:
        """Delete the stack and give its status."""
        return self.aws.driver.destroy(self.stack).status


@contextmanager
def scenario(
    assembly: Assembly, part: str, folder: Path, ledger: Ledger, name: str
) -> Iterator[tuple[Bench, Row]]:
    """An account in which every earlier stack is deployed, and the row that counts what is done to it."""
    with emulated_aws(folder=folder, region=REGION, seed=7) as aws:
        aws.prepare_without_cli(assembly)
        stack = next(stack for stack in assembly.stacks if stack.endswith(f"-{part}"))
        for earlier in assembly.stacks[: assembly.stacks.index(stack)]:
            assert aws.driver.deploy(earlier, assembly.template(earlier)).status == "CREATE_COMPLETE"
        with ledger.scenario(f"{part}: {name}", aws.account) as row:
            yield Bench(aws=aws, stack=stack, template=assembly.template(stack)), row


@pytest.fixture(scope="module")
def assembly(synthesize: Synthesize) -> Assembly:
    return synthesize(settings_of("walkthrough"))


def fail_creation_then_deletion(bench: Bench, logical_id: str) -> None:
    """One resource exists and is reported as failed; later its deletion fails once."""
    faults, before = bench.aws.engine.faults, bench.state()
    faults.arm(Fault(stack=bench.stack, logical_id=logical_id, operation="create", half_done=True))
    assert bench.deploy().startswith("ROLLBACK_COMPLETE"), logical_id
    assert bench.state() == before, logical_id
    assert bench.deploy() == "CREATE_COMPLETE", logical_id
    faults.arm(Fault(stack=bench.stack, logical_id=logical_id, operation="delete"))
    assert bench.destroy() == "DELETE_FAILED", logical_id
    assert bench.destroy() == "DELETE_COMPLETE", logical_id
    assert bench.state() == before, logical_id


def lose_the_answer(bench: Bench, logical_id: str) -> None:
    """A function does its work and runs out of time; the framework then ignores the deletion."""
    bench.aws.custom_resources.lose_answers_of.add(logical_id)
    assert bench.deploy().startswith("ROLLBACK_COMPLETE"), logical_id
    assert bench.deploy() == "CREATE_COMPLETE", logical_id
    assert bench.destroy() == "DELETE_COMPLETE", logical_id


def resources_of(template: dict[str, Any], keep: Callable[[str], bool] = lambda _: True) -> list[str]:
    """Logical ids whose type is wanted."""
    return [name for name, resource in template["Resources"].items() if keep(resource["Type"])]


def test_failures_of_single_resources_leave_nothing_and_can_be_repeated(
    assembly: Assembly, tmp_path: Path, ledger: Ledger
) -> None:
    with scenario(assembly, "network", tmp_path, ledger, "a sample of failures") as (network, row):
        names = resources_of(network.template)
        for logical_id in names[:: len(names) // SAMPLE]:
            fail_creation_then_deletion(network, logical_id)
            row.faults += 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", PARTS)
def test_failure_of_any_resource_leaves_nothing_and_can_be_repeated(
    assembly: Assembly, tmp_path: Path, ledger: Ledger, part: str
) -> None:
    with scenario(assembly, part, tmp_path, ledger, "every resource fails") as (stack, row):
        for logical_id in resources_of(stack.template):
            fail_creation_then_deletion(stack, logical_id)
            row.faults += 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["registry", "hyperpod", "ray"])
def test_function_whose_answer_is_lost_can_be_asked_again(
    assembly: Assembly, tmp_path: Path, ledger: Ledger, part: str
) -> None:
    with scenario(assembly, part, tmp_path, ledger, "every answer is lost once") as (stack, row):
        for logical_id in resources_of(stack.template, is_custom):
            lose_the_answer(stack, logical_id)
            row.faults += 1
