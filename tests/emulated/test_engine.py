"""The engine keeps CloudFormation's promises, and breaks what CloudFormation would break."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.emulated.account import Action
from tests.emulated.driver import Driver
from tests.emulated.failures import Fault
from tests.emulated.stacks import ValidationError

VPC: dict[str, Any] = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
SUBNET: dict[str, Any] = {
    "Type": "AWS::EC2::Subnet",
    "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24", "Tags": [{"Key": "n", "Value": "1"}]},
}
GROUP: dict[str, Any] = {
    "Type": "AWS::EC2::SecurityGroup",
    "Properties": {"GroupDescription": "nodes", "VpcId": {"Ref": "Vpc"}},
}
NETWORK: dict[str, Any] = {"Resources": {"Vpc": VPC, "Subnet": SUBNET, "Group": GROUP}}


def with_property(template: dict[str, Any], logical_id: str, **properties: Any) -> dict[str, Any]:
    """The template with one resource's properties changed."""
    resource = template["Resources"][logical_id]
    changed = {**resource, "Properties": {**resource["Properties"], **properties}}
    return {**template, "Resources": {**template["Resources"], logical_id: changed}}


def without(template: dict[str, Any], logical_id: str) -> dict[str, Any]:
    return {"Resources": {k: v for k, v in template["Resources"].items() if k != logical_id}}


def done(driver: Driver, action: Action) -> list[str]:
    return [entry.logical_id for entry in driver.engine.account.journal if entry.action is action]


@pytest.mark.parametrize("seed", range(10))
def test_users_are_created_after_and_deleted_before_what_they_use(
    make_driver: Callable[[int], Driver], seed: int
) -> None:
    driver = make_driver(seed)
    assert driver.deploy("net", NETWORK).status == "CREATE_COMPLETE"
    assert done(driver, Action.CREATE)[0] == "Vpc"
    assert driver.destroy("net").status == "DELETE_COMPLETE"
    assert done(driver, Action.DELETE)[-1] == "Vpc"
    assert not driver.engine.account.resources


def test_seeds_give_different_orders(make_driver: Callable[[int], Driver]) -> None:
    orders = set()
    for seed in range(10):
        driver = make_driver(seed)
        driver.deploy("net", NETWORK)
        orders.add(tuple(done(driver, Action.CREATE)))
    assert orders == {("Vpc", "Subnet", "Group"), ("Vpc", "Group", "Subnet")}


def test_second_deployment_of_the_same_template_changes_nothing(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    assert driver.changes("net", NETWORK) == ()


def test_mutable_property_changes_in_place(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    changed = with_property(NETWORK, "Subnet", MapPublicIpOnLaunch=True)
    (change,) = driver.changes("net", changed)
    assert (change.action, change.replacement, change.properties) == (
        "Modify",
        "False",
        ("MapPublicIpOnLaunch",),
    )
    assert driver.deploy("net", changed).status == "UPDATE_COMPLETE"
    assert done(driver, Action.UPDATE) == ["Subnet"]


def test_create_only_property_replaces_the_resource_and_all_that_name_it(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    changed = with_property(NETWORK, "Vpc", CidrBlock="10.1.0.0/16")
    assert {change.logical_id: change.replacement for change in driver.changes("net", changed)}[
        "Vpc"
    ] == "True"
    assert driver.deploy("net", changed).status == "UPDATE_COMPLETE"
    assert set(done(driver, Action.REPLACE)) == {"Vpc", "Subnet", "Group"}
    assert len(driver.engine.account.resources) == 3


def test_dropped_resource_is_deleted_after_the_update(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    assert driver.deploy("net", without(NETWORK, "Group")).status == "UPDATE_COMPLETE"
    assert done(driver, Action.DELETE) == ["Group"]


@pytest.mark.parametrize("half_done", [False, True])
@pytest.mark.parametrize("logical_id", sorted(NETWORK["Resources"]))
def test_failed_creation_leaves_nothing_and_the_next_one_succeeds(
    driver: Driver, logical_id: str, half_done: bool
) -> None:
    driver.engine.faults.arm(
        Fault(stack="net", logical_id=logical_id, operation="create", half_done=half_done)
    )
    assert driver.deploy("net", NETWORK).status == "ROLLBACK_COMPLETE"
    assert not driver.engine.account.resources
    assert driver.deploy("net", NETWORK).status == "CREATE_COMPLETE"


def test_failed_update_takes_every_change_back(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    before = dict(driver.engine.account.resources)
    changed = with_property(NETWORK, "Subnet", MapPublicIpOnLaunch=True)
    changed["Resources"]["Other"] = {**SUBNET, "DependsOn": "Subnet"}
    driver.engine.faults.arm(Fault(stack="net", logical_id="Other", operation="create"))
    assert driver.deploy("net", changed).status == "UPDATE_ROLLBACK_COMPLETE"
    assert driver.engine.account.resources == before
    assert driver.changes("net", NETWORK) == ()


def test_failed_replacement_keeps_the_old_resource(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    before = dict(driver.engine.account.resources)
    changed = with_property(NETWORK, "Group", GroupDescription="other")
    driver.engine.faults.arm(Fault(stack="net", logical_id="Group", operation="create", half_done=True))
    assert driver.deploy("net", changed).status == "UPDATE_ROLLBACK_COMPLETE"
    assert driver.engine.account.resources == before


def test_failed_deletion_is_reported_and_a_second_one_finishes(driver: Driver) -> None:
    driver.deploy("net", NETWORK)
    driver.engine.faults.arm(Fault(stack="net", logical_id="Group", operation="delete"))
    stack = driver.destroy("net")
    assert (stack.status, set(stack.resources)) == ("DELETE_FAILED", {"Group", "Vpc"})
    assert driver.destroy("net").status == "DELETE_COMPLETE"
    assert not driver.engine.account.resources


def test_retained_resource_outlives_its_stack_and_blocks_its_own_name(driver: Driver) -> None:
    queue = {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain", "Properties": {"QueueName": "jobs"}}
    group = {"Type": "AWS::EC2::KeyPair", "DeletionPolicy": "Retain", "Properties": {"KeyName": "nodes"}}
    template = {"Resources": {"Queue": queue, "Key": group}}
    driver.deploy("one", template)
    driver.destroy("one")
    assert len(driver.engine.account.resources) == 2
    stack = driver.deploy("one", template)
    assert stack.status == "ROLLBACK_COMPLETE"
    assert any("AlreadyExists" in event.reason for event in stack.events)


def test_exports_bind_stacks_together(driver: Driver) -> None:
    network = {**NETWORK, "Outputs": {"Vpc": {"Value": {"Ref": "Vpc"}, "Export": {"Name": "vpc"}}}}
    place = {"VpcId": {"Fn::ImportValue": "vpc"}, "CidrBlock": "10.0.9.0/24"}
    subnet = {**SUBNET, "Properties": {**SUBNET["Properties"], **place}}
    driver.deploy("net", network)
    assert driver.deploy("app", {"Resources": {"Subnet": subnet}}).status == "CREATE_COMPLETE"
    with pytest.raises(ValidationError, match="in use by"):
        driver.destroy("net")
    driver.destroy("app")
    assert driver.destroy("net").status == "DELETE_COMPLETE"


def test_weak_reference_to_a_replaced_resource_is_caught(driver: Driver) -> None:
    network = {**NETWORK, "Outputs": {"Vpc": {"Value": {"Ref": "Vpc"}}}}
    output = {"Fn::GetStackOutput": {"StackName": "net", "OutputName": "Vpc"}}
    place = {"VpcId": output, "CidrBlock": "10.0.9.0/24"}
    app = {"Resources": {"Subnet": {**SUBNET, "Properties": {**SUBNET["Properties"], **place}}}}
    driver.deploy("net", network)
    driver.deploy("app", app)
    driver.deploy("net", with_property(network, "Vpc", CidrBlock="10.1.0.0/16"))
    (change,) = driver.changes("app", app)
    assert change.replacement == "True"


def test_circular_dependency_is_refused(driver: Driver) -> None:
    template = {
        "Resources": {
            "A": {"Type": "AWS::SQS::Queue", "DependsOn": "B"},
            "B": {"Type": "AWS::SQS::Queue", "DependsOn": ["A"]},
        }
    }
    with pytest.raises(ValidationError, match=r"Circular dependency between resources: \['A', 'B'\]"):
        driver.deploy("loop", template)


def test_unresolved_name_is_refused(driver: Driver) -> None:
    with pytest.raises(ValidationError, match="Nobody"):
        driver.deploy(
            "x", {"Resources": {"A": {"Type": "AWS::SQS::Queue", "Properties": {"x": {"Ref": "Nobody"}}}}}
        )


def test_protected_stack_is_not_deleted(driver: Driver) -> None:
    driver.deploy("net", NETWORK).termination_protection = True
    with pytest.raises(ValidationError, match="TerminationProtection"):
        driver.destroy("net")
