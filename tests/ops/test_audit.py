"""Audit of an account that holds leftovers of ours, and a neighbour's of nearly the same name."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from ops import audit
from ops.__main__ import app
from ops.aws import Aws
from ops.leftovers.model import Leftover, Scope
from ops.output import OperationError
from stacks.names import DEPLOYMENT_TAG
from stacks.settings import Settings, load_settings

from .aws_stub import Answer, StubbedAws, refusal
from .test_preflight import settings_with

REGION = "us-east-2"
OURS, NEIGHBOUR = "maze-grpo", "maze-grpo-2"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
INLINE = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*"}],
    }
)
SESSION = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


@cache
def client(service: str) -> Any:
    """moto answers the clients of any session; making them anew for each test would take most of the time."""
    return SESSION.client(service)


def tags(deployment: str) -> list[dict[str, str]]:
    return [{"Key": DEPLOYMENT_TAG, "Value": deployment}]


def plant_network(deployment: str) -> None:
    """A VPC that could not be deleted: an interface, a security group and GuardDuty's endpoint are in it."""
    ec2 = client("ec2")
    specification = [{"ResourceType": "vpc", "Tags": tags(deployment)}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=specification)["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    other = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=f"{REGION}b")
    group = ec2.create_security_group(VpcId=vpc, GroupName=f"eks-{deployment}", Description="d")["GroupId"]
    ec2.create_network_interface(SubnetId=subnet, Groups=[group], Description=f"aws-K8S-{deployment}")
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        VpcEndpointType="Interface",
        ServiceName=f"com.amazonaws.{REGION}.guardduty-data",
        SubnetIds=[subnet],
    )
    client("elbv2").create_load_balancer(
        Name=f"k8s-{deployment}",
        Subnets=[subnet, other["Subnet"]["SubnetId"]],
        Tags=[{"Key": "elbv2.k8s.aws/cluster", "Value": deployment}],
    )
    plant_studio_home(deployment, subnet)


def plant_studio_home(deployment: str, subnet: str) -> None:
    efs = client("efs")
    tag = {"Key": "ManagedByAmazonSageMakerResource", "Value": f"arn:aws:sagemaker:::domain/{deployment}"}
    home = efs.create_file_system(CreationToken=deployment, Tags=[tag])["FileSystemId"]
    efs.create_mount_target(FileSystemId=home, SubnetId=subnet)


def plant_disks(deployment: str) -> None:
    owned = [{"Key": f"kubernetes.io/cluster/{deployment}", "Value": "owned"}]
    client("ec2").create_volume(
        AvailabilityZone=f"{REGION}a",
        Size=500,
        TagSpecifications=[{"ResourceType": "volume", "Tags": owned}],
    )
    fsx = client("fsx")
    subnets = ["subnet-0123456789abcdef0"]
    system = fsx.create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=subnets, Tags=tags(deployment)
    )
    fsx.create_backup(FileSystemId=system["FileSystem"]["FileSystemId"], Tags=tags(deployment))


def plant_records(deployment: str) -> None:
    logs = client("logs")
    logs.create_log_group(logGroupName=f"/aws/sagemaker/Clusters/{deployment}/abcdefghijkl")
    logs.create_log_group(logGroupName=f"/aws/eks/{deployment}/cluster")
    client("ecr").create_repository(repositoryName=f"{deployment}/training", tags=tags(deployment))
    client("amp").create_workspace(alias=deployment, tags={DEPLOYMENT_TAG: deployment})
    client("kms").create_key(Tags=[{"TagKey": DEPLOYMENT_TAG, "TagValue": deployment}])
    s3, bucket = client("s3"), f"{deployment}-artifacts"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags(deployment)})
    s3.put_object(Bucket=bucket, Key="results.json", Body=b"{}")


def plant_access(deployment: str) -> None:
    iam, name = client("iam"), f"{deployment}-cluster-KubectlRole"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=tags(deployment))
    iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=INLINE)


def grafana(*deployments: str) -> dict[str, Answer]:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    workspaces = [
        {
            "created": now,
            "modified": now,
            "endpoint": "g.example",
            "grafanaVersion": "10.4",
            "id": f"g-{number:010}",
            "status": "ACTIVE",
            "authentication": {"providers": ["SAML"]},
            "tags": {DEPLOYMENT_TAG: deployment},
        }
        for number, deployment in enumerate(deployments)
    ]
    return {"grafana.ListWorkspaces": {"workspaces": workspaces}}


class Account(Aws):
    """moto's account, with an answer for Grafana, which moto does not have."""

    def __init__(self, region: str = REGION, answers: dict[str, Answer] | None = None) -> None:
        super().__init__(region)
        self._grafana = StubbedAws(answers or grafana(), region)

    def _make_client(self, service: str) -> Any:
        return self._grafana.client(service) if service == "grafana" else client(service)


@pytest.fixture
def account() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.fixture
def littered(account: None) -> None:
    for deployment in (OURS, NEIGHBOUR):
        for plant in (plant_network, plant_disks, plant_records, plant_access):
            plant(deployment)


def scope(settings: Settings | None = None, *, grafanas: tuple[str, ...] = ()) -> Scope:
    return Scope(settings=settings or load_settings(), aws=Account(answers=grafana(*grafanas)))


def kinds(found: list[Leftover]) -> set[str]:
    return {leftover.kind for leftover in found}


EXPECTED = {
    "load balancer",
    "GuardDuty endpoint",
    "network interface",
    "security group",
    "VPC",
    "EBS volume",
    "file system",
    "file system backup",
    "Studio home",
    "image repository",
    "Prometheus workspace",
    "Grafana workspace",
    "log group",
    "bucket",
    "key",
    "IAM role",
}


def test_an_empty_account_is_clean(account: None) -> None:
    found = audit.leftovers(scope())
    assert found == []
    assert audit.is_clean(found)


def test_leftovers_of_every_planted_kind_are_found(littered: None) -> None:
    found = audit.leftovers(scope(grafanas=(OURS, NEIGHBOUR)))
    assert kinds(found) == EXPECTED
    assert all(leftover.evidence for leftover in found)


def test_a_neighbour_causes_no_false_alarm(account: None) -> None:
    for plant in (plant_network, plant_disks, plant_records, plant_access):
        plant(NEIGHBOUR)
    assert audit.leftovers(scope(grafanas=(NEIGHBOUR,))) == []


def test_deleting_ours_leaves_the_neighbour_as_it_was(littered: None) -> None:
    neighbour = settings_with(name=NEIGHBOUR)
    before = {leftover.identifier for leftover in audit.leftovers(scope(neighbour))}
    outcomes = list(audit.delete(audit.leftovers(scope()), scope()))
    assert [refusal for _, refusal in outcomes if refusal is not None] == []
    # CloudFormation deletes the VPC itself once nothing is in it.
    assert kinds(audit.leftovers(scope())) <= {"VPC", "network interface"}
    assert {leftover.identifier for leftover in audit.leftovers(scope(neighbour))} == before


def test_nothing_is_deleted_while_a_stack_exists(littered: None) -> None:
    client("cloudformation").create_stack(
        StackName=f"{OURS}-network",
        TemplateBody=json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}),
    )
    found = audit.leftovers(scope())
    with pytest.raises(OperationError, match="ops teardown"):
        list(audit.delete(found, scope()))
    assert audit.leftovers(scope()) == found


def test_a_stack_of_the_neighbour_does_not_stop_the_deletion(littered: None) -> None:
    client("cloudformation").create_stack(
        StackName=f"{NEIGHBOUR}-network",
        TemplateBody=json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}),
    )
    assert list(audit.delete(audit.leftovers(scope()), scope()))


def test_what_the_settings_retain_is_listed_but_neither_alarm_nor_deleted(account: None) -> None:
    plant_records(OURS)
    settings = settings_with(removal="retain", storage={"removal": "retain"})
    found = audit.leftovers(scope(settings))
    assert kinds(found) >= {"log group", "image repository", "bucket", "key"}
    assert audit.is_clean(found)
    assert list(audit.delete(found, scope(settings))) == []


def test_a_refused_deletion_is_told_and_the_rest_goes_on(account: None) -> None:
    plant_records(OURS)
    answers = {**grafana(OURS), "grafana.DeleteWorkspace": refusal("AccessDeniedException")}
    ours = Scope(settings=load_settings(), aws=Account(answers=answers))
    refused = [leftover.kind for leftover, reason in audit.delete(audit.leftovers(ours), ours) if reason]
    assert refused == ["Grafana workspace"]
    assert kinds(audit.leftovers(ours)) == {"Grafana workspace"}


def test_what_has_gone_meanwhile_counts_as_deleted(account: None) -> None:
    gone = Leftover(kind="EBS volume", identifier="vol-0123456789abcdef0", evidence="was there", kept=False)
    assert list(audit.delete([gone], scope())) == [(gone, None)]


@pytest.mark.parametrize(("answer", "is_gone"), [("n\n", False), ("y\n", True)])
def test_the_command_asks_before_it_deletes(
    account: None, monkeypatch: pytest.MonkeyPatch, answer: str, is_gone: bool
) -> None:
    plant_records(OURS)
    monkeypatch.setattr(audit, "Aws", Account)
    result = CliRunner().invoke(app, ["audit", "--delete"], input=answer)
    assert (result.exit_code == 0) is is_gone
    assert (audit.leftovers(scope()) == []) is is_gone


def test_the_exit_code_and_the_json_tell_what_is_left(account: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "Aws", Account)
    assert CliRunner().invoke(app, ["audit"]).exit_code == 0
    plant_access(OURS)
    result = CliRunner().invoke(app, ["audit", "--json"])
    assert result.exit_code == 1
    (leftover,) = json.loads(result.stdout)
    assert leftover == {
        "kind": "IAM role",
        "identifier": "maze-grpo-cluster-KubectlRole",
        "evidence": "hyperpod-rl:deployment=maze-grpo",
        "kept": False,
    }
