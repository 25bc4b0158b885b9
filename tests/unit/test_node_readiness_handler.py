"""The wait for nodes, against a stubbed SageMaker client that checks every call."""

import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from stacks.handlers import node_readiness
from stacks.handlers.node_readiness import NodesNotReadyError

CLUSTER_ARN = "arn:aws:sagemaker:us-east-2:111122223333:cluster/abcdefghijkl"
PROPERTIES = {
    "ClusterName": "maze",
    "InstanceGroups": {"gpu": "2", "head": "1"},  # CloudFormation turns numbers into strings
    "TimeoutSeconds": "7200",
}


@pytest.fixture
def sagemaker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client(
        "sagemaker", region_name="us-east-2", aws_access_key_id="none", aws_secret_access_key="none"
    )
    monkeypatch.setattr(boto3, "client", lambda _service: client)
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def polled(request_type: str = "Create", *, deadline: float | None = None) -> dict[str, Any]:
    deadline = time.time() + 60 if deadline is None else deadline
    return {
        "RequestType": request_type,
        "ResourceProperties": PROPERTIES,
        "Data": {"Deadline": str(deadline)},
    }


def nodes_are(sagemaker: Stubber, *nodes: tuple[str, str, str]) -> None:
    summaries = [
        {
            "InstanceGroupName": group,
            "InstanceId": f"i-{index}",
            "InstanceType": "ml.g7e.12xlarge",
            "LaunchTime": "2026-12-01",
            "InstanceStatus": {"Status": status, "Message": message},
        }
        for index, (group, status, message) in enumerate(nodes)
    ]
    middle = len(summaries) // 2
    pages = [
        {"ClusterNodeSummaries": summaries[:middle], "NextToken": "more"},
        {"ClusterNodeSummaries": summaries[middle:]},
    ]
    sagemaker.add_response("list_cluster_nodes", pages[0], {"ClusterName": "maze"})
    sagemaker.add_response("list_cluster_nodes", pages[1], {"ClusterName": "maze", "NextToken": "more"})


def cluster_is(sagemaker: Stubber, status: str, **more: Any) -> None:
    description = {
        "ClusterArn": CLUSTER_ARN,
        "ClusterStatus": status,
        "InstanceGroups": [],
        **more,
    }
    sagemaker.add_response("describe_cluster", description, {"ClusterName": "maze"})


def events_are(sagemaker: Stubber, *descriptions: str) -> None:
    events = [
        {
            "EventId": str(index),
            "ClusterArn": CLUSTER_ARN,
            "ClusterName": "maze",
            "ResourceType": "Instance",
            "EventTime": "2026-12-01",
            "InstanceGroupName": "gpu",
            "EventLevel": "Error",
            "Description": description,
        }
        for index, description in enumerate(descriptions)
    ]
    sagemaker.add_response(
        "list_cluster_events",
        {"Events": events},
        {"ClusterName": "maze", "SortBy": "EventTime", "SortOrder": "Descending", "MaxResults": ANY},
    )


RUNNING = (("gpu", "Running", ""), ("gpu", "Running", ""), ("head", "Running", ""))
ONE_PENDING = (("gpu", "Running", ""), ("gpu", "Pending", ""), ("head", "Running", ""))


@pytest.mark.parametrize("request_type", ["Create", "Update", "Delete"])
def test_every_request_keeps_the_same_physical_id(request_type: str) -> None:
    answer = node_readiness.on_event({"RequestType": request_type, "ResourceProperties": PROPERTIES}, None)
    assert answer["PhysicalResourceId"] == "maze/nodes"


def test_the_clock_starts_with_the_request() -> None:
    before = time.time()
    answer = node_readiness.on_event({"RequestType": "Create", "ResourceProperties": PROPERTIES}, None)
    assert float(answer["Data"]["Deadline"]) == pytest.approx(before + 7200, abs=10)


def test_all_nodes_running_is_the_end(sagemaker: Stubber) -> None:
    nodes_are(sagemaker, *RUNNING)
    assert node_readiness.is_complete(polled(), None) == {"IsComplete": True, "Data": {"RunningNodes": "3"}}


def test_a_missing_node_is_waited_for_and_the_log_says_which(
    sagemaker: Stubber, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes_are(sagemaker, *ONE_PENDING)
    cluster_is(sagemaker, "InService")
    assert node_readiness.is_complete(polled(), None) == {"IsComplete": False}
    assert capsys.readouterr().out == "gpu: 1 of 2 running 1 Pending; head: 1 of 1 running\n"


def test_nodes_of_another_group_do_not_count(sagemaker: Stubber) -> None:
    nodes_are(sagemaker, *(("head", "Running", ""),) * 3)
    cluster_is(sagemaker, "Updating")
    assert node_readiness.is_complete(polled(), None) == {"IsComplete": False}


@pytest.mark.parametrize(
    ("event", "remedy"),
    [
        ("Insufficient capacity for ml.g7e.12xlarge in use2-az1", "use a training plan"),
        ("Account quota exceeded for ml.g7e.12xlarge", "raise the Service Quota"),
        ("EFA health checks did not run successfully", "security group's self rules"),
        ("Lifecycle script exited with code 1", "/aws/sagemaker/Clusters/"),
    ],
)
def test_a_deadline_missed_is_explained_by_the_clusters_events(
    sagemaker: Stubber, event: str, remedy: str
) -> None:
    nodes_are(sagemaker, *ONE_PENDING)
    cluster_is(sagemaker, "InService")
    events_are(sagemaker, event)
    with pytest.raises(NodesNotReadyError) as error:
        node_readiness.is_complete(polled(deadline=time.time() - 1), None)
    message = str(error.value)
    assert "gpu: 1 of 2 running 1 Pending" in message
    assert event in message
    assert remedy in message


def test_a_failed_cluster_is_reported_at_once(sagemaker: Stubber) -> None:
    nodes_are(sagemaker, ("gpu", "Failure", "node did not join"))
    cluster_is(sagemaker, "Failed", FailureMessage="cluster creation failed")
    events_are(sagemaker)
    with pytest.raises(NodesNotReadyError, match=r"cluster creation failed[\s\S]*i-0: node did not join"):
        node_readiness.is_complete(polled(), None)


def test_a_reason_fits_into_what_cloudformation_shows(sagemaker: Stubber) -> None:
    nodes_are(sagemaker, *ONE_PENDING)
    cluster_is(sagemaker, "InService")
    events_are(sagemaker, *("x" * 1000,) * 20)
    with pytest.raises(NodesNotReadyError) as error:
        node_readiness.is_complete(polled(deadline=0), None)
    assert len(str(error.value)) <= node_readiness.REASON_LIMIT


def test_a_deletion_waits_for_nothing() -> None:
    assert node_readiness.is_complete(polled("Delete"), None) == {"IsComplete": True}
