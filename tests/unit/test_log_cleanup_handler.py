"""The custom resource that deletes a service's log groups, against a stubbed client."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.stub import Stubber

from stacks.handlers import log_cleanup

PREFIX = "/aws/sagemaker/Clusters/maze/"


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client(
        "logs", region_name="us-east-2", aws_access_key_id="none", aws_secret_access_key="none"
    )
    monkeypatch.setattr(boto3, "client", lambda _service: client)
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_nothing_happens_while_the_cluster_lives(logs: Stubber, request_type: str) -> None:
    event = {"RequestType": request_type, "ResourceProperties": {"Prefix": PREFIX}}
    assert log_cleanup.on_event(event, None) == {"PhysicalResourceId": PREFIX}


def test_deletion_deletes_every_group_of_every_page(logs: Stubber) -> None:
    pages = [["a", "b"], ["c"]]
    names = [[f"{PREFIX}{name}" for name in page] for page in pages]
    groups = [[{"logGroupName": name} for name in page] for page in names]
    asked = {"logGroupNamePrefix": PREFIX}
    logs.add_response("describe_log_groups", {"logGroups": groups[0], "nextToken": "more"}, asked)
    logs.add_response("describe_log_groups", {"logGroups": groups[1]}, {**asked, "nextToken": "more"})
    for name in (*names[0], *names[1]):
        logs.add_response("delete_log_group", {}, {"logGroupName": name})
    event = {
        "RequestType": "Delete",
        "PhysicalResourceId": PREFIX,
        "ResourceProperties": {"Prefix": PREFIX},
    }
    assert log_cleanup.on_event(event, None) == {"PhysicalResourceId": PREFIX}
