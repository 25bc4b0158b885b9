"""The custom resource that builds the training image, against stubbed AWS clients that check every call."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stacks.handlers import builds, image_build

PROPERTIES = {"ProjectName": "project", "RepositoryName": "maze/training", "ImageTag": "0123abcd"}
DIGEST = f"sha256:{'a' * 64}"
IMAGE = {"repositoryName": "maze/training", "imageIds": [{"imageTag": "0123abcd"}]}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """A stub per service. Leaving the fixture fails the test when an expected call was not made."""
    stubs = {
        service: Stubber(
            boto3.client(
                service, region_name="us-east-2", aws_access_key_id="none", aws_secret_access_key="none"
            )
        )
        for service in ("codebuild", "ecr", "logs")
    }
    for stub in stubs.values():
        stub.activate()
    monkeypatch.setattr(boto3, "client", lambda service: stubs[service].client)
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


def request(request_type: str, **more: Any) -> dict[str, Any]:
    return {"RequestType": request_type, "ResourceProperties": PROPERTIES, **more}


def image_is_there(aws: dict[str, Stubber]) -> None:
    aws["ecr"].add_response("describe_images", {"imageDetails": [{"imageDigest": DIGEST}]}, IMAGE)


def image_is_missing(aws: dict[str, Stubber]) -> None:
    aws["ecr"].add_client_error("describe_images", "ImageNotFoundException", expected_params=IMAGE)


def build_is(aws: dict[str, Stubber], status: str, **more: Any) -> None:
    build = {"id": "project:1", "buildStatus": status, **more}
    aws["codebuild"].add_response("batch_get_builds", {"builds": [build]}, {"ids": ["project:1"]})


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_missing_image_starts_a_build(aws: dict[str, Stubber], request_type: str) -> None:
    image_is_missing(aws)
    aws["codebuild"].add_response("start_build", {"build": {"id": "project:1"}}, {"projectName": "project"})
    answer = image_build.on_event(request(request_type, PhysicalResourceId="older"), None)
    assert answer == {"PhysicalResourceId": "0123abcd", "Data": {"BuildId": "project:1"}}


def test_image_with_the_same_content_is_not_built_again(aws: dict[str, Stubber]) -> None:
    image_is_there(aws)
    assert image_build.on_event(request("Update"), None)["Data"] == {"BuildId": ""}
    image_is_there(aws)
    answer = image_build.is_complete(request("Update", Data={"BuildId": ""}), None)
    assert answer == {"IsComplete": True, "Data": {"ImageDigest": DIGEST, "BuildId": ""}}


def test_running_build_is_waited_for(aws: dict[str, Stubber]) -> None:
    build_is(aws, "IN_PROGRESS")
    event = request("Create", Data={"BuildId": "project:1"})
    assert image_build.is_complete(event, None) == {"IsComplete": False}


def test_finished_build_reports_the_digest(aws: dict[str, Stubber]) -> None:
    build_is(aws, "SUCCEEDED")
    image_is_there(aws)
    answer = image_build.is_complete(request("Create", Data={"BuildId": "project:1"}), None)
    assert answer["Data"]["ImageDigest"] == DIGEST


def test_failed_build_raises_with_phase_and_last_log_lines(aws: dict[str, Stubber]) -> None:
    build_is(
        aws,
        "FAILED",
        phases=[
            {"phaseType": "BUILD", "contexts": [{"message": "exit status 1"}]},
            {"phaseType": "COMPLETED"},
        ],
        logs={"groupName": "group", "streamName": "stream"},
    )
    aws["logs"].add_response(
        "get_log_events",
        {"events": [{"message": "line one\n"}, {"message": "no space left on device\n"}]},
        {
            "logGroupName": "group",
            "logStreamName": "stream",
            "limit": builds.LOG_LINES,
            "startFromHead": False,
        },
    )
    with pytest.raises(builds.BuildError) as error:
        image_build.is_complete(request("Create", Data={"BuildId": "project:1"}), None)
    assert str(error.value).splitlines() == [
        "build project:1 ended as FAILED",
        "BUILD: exit status 1",
        "log: group / stream, last lines:",
        "line one",
        "no space left on device",
    ]


def test_failure_before_the_log_began_is_still_told(aws: dict[str, Stubber]) -> None:
    build_is(aws, "FAULT", logs={"groupName": "group", "streamName": "stream"})
    aws["logs"].add_client_error("get_log_events", "ResourceNotFoundException")
    with pytest.raises(builds.BuildError, match=r"ended as FAULT[\s\S]*wrote no log"):
        image_build.is_complete(request("Create", Data={"BuildId": "project:1"}), None)


def test_long_log_is_cut_in_the_middle_and_keeps_its_end(aws: dict[str, Stubber]) -> None:
    build_is(aws, "TIMED_OUT", logs={"groupName": "group", "streamName": "stream"})
    events = [{"message": "x" * 1000} for _ in range(20)] + [{"message": "the reason"}]
    aws["logs"].add_response("get_log_events", {"events": events})
    with pytest.raises(builds.BuildError) as error:
        image_build.is_complete(request("Create", Data={"BuildId": "project:1"}), None)
    message = str(error.value)
    assert message.startswith("build project:1 ended as TIMED_OUT")
    assert message.endswith("the reason")
    assert len(message) <= builds.REASON_LIMIT + len("\n...\n")


def test_build_that_succeeded_without_an_image_is_an_error(aws: dict[str, Stubber]) -> None:
    build_is(aws, "SUCCEEDED")
    image_is_missing(aws)
    with pytest.raises(image_build.ImageBuildError, match="maze/training:0123abcd is not in the registry"):
        image_build.is_complete(request("Create", Data={"BuildId": "project:1"}), None)


def test_deletion_calls_nothing(aws: dict[str, Stubber]) -> None:
    event = request("Delete", PhysicalResourceId="0123abcd")
    assert image_build.on_event(event, None) == {"PhysicalResourceId": "0123abcd"}
    assert image_build.is_complete(event, None) == {"IsComplete": True}
