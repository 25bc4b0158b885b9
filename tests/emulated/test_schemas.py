"""The registry's schemas refuse what CloudFormation would refuse."""

from typing import Any

import pytest

from ops.resource_types import UnknownResourceType, resource_schema
from tests.emulated.schemas import property_faults

QUEUE = {"VisibilityTimeout": 30}


@pytest.mark.parametrize(
    ("resource_type", "properties", "fault"),
    [
        ("AWS::SQS::Queue", {"VisibilityTimeout": "soon"}, "#/VisibilityTimeout"),
        ("AWS::SQS::Queue", {"Visibility": 30}, "Visibility"),
        (
            "AWS::SQS::Queue",
            {"Arn": "arn:aws:sqs:us-east-2:123456789012:q"},
            "#/Arn: encountered a read-only",
        ),
        ("AWS::EC2::Subnet", {"CidrBlock": "10.0.0.0/24"}, "VpcId"),
        ("AWS::SageMaker::Cluster", {"ClusterName": "under_score"}, "#/ClusterName"),
        ("AWS::FSx::FileSystem", {"FileSystemType": "LUSTRE"}, "SubnetIds"),
    ],
)
def test_bad_properties_are_refused(resource_type: str, properties: Any, fault: str) -> None:
    assert any(fault in text for text in property_faults(resource_type, properties, region="us-east-2"))


@pytest.mark.parametrize("timeout", [30, "30"])
def test_scalars_are_converted_as_cloudformation_does(timeout: int | str) -> None:
    queue = {"VisibilityTimeout": timeout, "FifoQueue": "true"}
    assert property_faults("AWS::SQS::Queue", queue, region="us-east-2") == []


def test_create_only_change_replaces_and_other_change_does_not() -> None:
    schema = resource_schema("AWS::SageMaker::Cluster", region="us-east-2")
    before = {"ClusterName": "a", "Orchestrator": {"Eks": {"ClusterArn": "x"}}, "NodeRecovery": "None"}
    assert schema.replaces(before=before, after={**before, "NodeRecovery": "Automatic"}) == []
    assert schema.replaces(before=before, after={**before, "ClusterName": "b"}) == ["ClusterName"]
    moved = {**before, "Orchestrator": {"Eks": {"ClusterArn": "y"}}}
    assert schema.replaces(before=before, after=moved) == ["Orchestrator.Eks"]


def test_type_that_the_region_lacks_is_refused() -> None:
    with pytest.raises(UnknownResourceType, match="AWS::Grafana::Workspace in eu-north-1"):
        resource_schema("AWS::Grafana::Workspace", region="eu-north-1")
