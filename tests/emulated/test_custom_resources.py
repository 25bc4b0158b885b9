"""CloudFormation's and CDK's protocol around a custom resource's functions, with functions that misbehave."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.emulated.driver import reasons
from tests.emulated.emulator import Emulator, emulated_aws

HANDLER = """
import os
import time
def on_event(event, context):
    kind = event["RequestType"]
    mode = event["ResourceProperties"]["Mode"]
    if mode == "crash" and kind == "Create":
        raise RuntimeError("no such thing")
    if mode == "sleep" and kind == "Create":
        time.sleep(60)
    if mode == "long" and kind == "Create":
        return {"Data": {"Text": "x" * 5000}}
    if mode == "resist" and kind == "Delete" and not os.path.exists("asked"):
        open("asked", "w").close()
        raise RuntimeError("will not go")
    return {"PhysicalResourceId": "thing-" + event["ResourceProperties"]["Name"], "Data": {"Kind": kind}}
"""


def template(mode: str, name: str = "one") -> dict[str, Any]:
    """A provider as CDK's framework makes it, its function, and one custom resource."""
    role = "arn:aws:iam::123456789012:role/function"

    def function(handler: str, code: str, **variables: Any) -> dict[str, Any]:
        properties = {
            "Code": {"ZipFile": code},
            "Handler": handler,
            "Role": role,
            "Runtime": "python3.13",
            "Timeout": 900,
            "Environment": {"Variables": variables},
        }
        return {"Type": "AWS::Lambda::Function", "Properties": properties}

    token = {"Fn::GetAtt": ["Framework", "Arn"]}
    return {
        "Resources": {
            "Function": function("index.on_event", HANDLER),
            "Framework": function(
                "framework.onEvent", "", USER_ON_EVENT_FUNCTION_ARN={"Fn::GetAtt": ["Function", "Arn"]}
            ),
            "Thing": {
                "Type": "Custom::Thing",
                "Properties": {"ServiceToken": token, "Mode": mode, "Name": name, "Count": 3, "On": True},
            },
        },
        "Outputs": {"Kind": {"Value": {"Fn::GetAtt": ["Thing", "Kind"]}}},
    }


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulated_aws(folder=tmp_path_factory.mktemp("functions"), region="us-east-2") as emulator:
        emulator.functions.timeout = 2.0
        yield emulator


@pytest.fixture
def aws(account: Emulator) -> Iterator[Emulator]:
    """The account, with an empty list of invocations, and empty again afterwards."""
    account.functions.invocations.clear()
    yield account
    account.custom_resources.send_twice = False
    for stack in account.engine.live_stacks():
        account.driver.destroy(stack.name)
    assert not account.account.resources


@pytest.fixture
def sent(aws: Emulator) -> Callable[[], list[str]]:
    """The request types that the function has received."""
    return lambda: [invocation.event["RequestType"] for invocation in aws.functions.invocations]


def test_life_of_a_custom_resource(aws: Emulator, sent: Callable[[], list[str]]) -> None:
    stack = aws.driver.deploy("s", template("well"))
    assert stack.outputs == {"Kind": "Create"}
    assert stack.resources["Thing"].physical_id == "thing-one"
    properties = aws.functions.invocations[0].event["ResourceProperties"]
    assert (properties["Count"], properties["On"]) == ("3", "true")
    aws.driver.deploy("s", template("well", "two"))
    aws.driver.destroy("s")
    # another physical id is another thing: the first is deleted when the update is through
    assert sent() == ["Create", "Update", "Delete", "Delete"]
    deleted = [call.event["PhysicalResourceId"] for call in aws.functions.invocations[2:]]
    assert deleted == ["thing-one", "thing-two"]


@pytest.mark.parametrize(
    ("mode", "message"),
    [("crash", "no such thing"), ("sleep", "Task timed out"), ("long", "Response object is too long")],
)
def test_failed_creation_says_why_and_is_not_deleted(
    aws: Emulator, sent: Callable[[], list[str]], mode: str, message: str
) -> None:
    stack = aws.driver.deploy("s", template(mode))
    assert stack.status == "ROLLBACK_COMPLETE"
    assert any(message in reason for reason in reasons(stack))
    assert sent() == ["Create"]


def test_failed_update_is_taken_back(aws: Emulator, sent: Callable[[], list[str]]) -> None:
    aws.driver.deploy("s", template("well"))
    aws.custom_resources.lose_answers_of.add("Thing")
    stack = aws.driver.deploy("s", template("well", "two"))
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.resources["Thing"].physical_id == "thing-one"
    assert sent() == ["Create", "Update", "Update"]


def test_event_that_comes_twice_is_answered_once(aws: Emulator, sent: Callable[[], list[str]]) -> None:
    aws.custom_resources.send_twice = True
    assert aws.driver.deploy("s", template("well")).status == "CREATE_COMPLETE"
    assert sent() == ["Create", "Create"]


def test_failed_deletion_keeps_the_stack_until_it_succeeds(aws: Emulator) -> None:
    aws.driver.deploy("s", template("resist"))
    stack = aws.driver.destroy("s")
    assert (stack.status, "Thing" in stack.resources) == ("DELETE_FAILED", True)
    assert any("will not go" in reason for reason in reasons(stack))
    assert aws.driver.destroy("s").status == "DELETE_COMPLETE"
