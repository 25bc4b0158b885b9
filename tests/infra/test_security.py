"""What cdk-nag cannot see: its rules know neither `aws_eks_v2` clusters nor HyperPod."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.settings import load_settings
from tests.infra.conftest import Template, resources_of, the_resource

DOCUMENT = Path(__file__).parents[2] / "docs/security.md"


@pytest.fixture
def kubernetes(templates: dict[str, Template]) -> Any:
    return the_resource(templates["cluster"], "AWS::EKS::Cluster")


def statements(templates: dict[str, Template]) -> Iterator[dict[str, Any]]:
    """Every statement that allows something, in all identity policies of all stacks."""
    for template in templates.values():
        for resource in template["Resources"].values():
            properties = resource.get("Properties", {})
            inline = properties.get("Policies", [])
            documents = [policy["PolicyDocument"] for policy in inline if isinstance(policy, dict)]
            if resource["Type"] in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}:
                documents.append(properties["PolicyDocument"])
            for document in documents:
                yield from (s for s in document["Statement"] if s["Effect"] == "Allow")


def undocumented_wildcards(templates: dict[str, Template]) -> list[str]:
    """Actions on resource `*` that docs/security.md does not explain."""
    documented = DOCUMENT.read_text()
    return [
        action
        for statement in statements(templates)
        if "*" in as_list(statement["Resource"])
        for action in as_list(statement["Action"])
        if f"`{action}`" not in documented
    ]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_api_server_is_public_only_for_the_given_networks(kubernetes: Any, environment: str) -> None:
    access = kubernetes["ResourcesVpcConfig"]
    allowed = [str(cidr) for cidr in load_settings(environment).kubernetes.public_access_cidrs]
    assert access["EndpointPrivateAccess"] is True
    assert access["PublicAccessCidrs"] == allowed
    assert "0.0.0.0/0" not in allowed


def test_all_control_plane_logs_go_to_our_log_group(kubernetes: Any, templates: dict[str, Template]) -> None:
    types = {each["Type"] for each in kubernetes["Logging"]["ClusterLogging"]["EnabledTypes"]}
    assert types == {"api", "audit", "authenticator", "controllerManager", "scheduler"}
    groups = resources_of(templates["cluster"], "AWS::Logs::LogGroup").values()
    assert f"/aws/eks/{kubernetes['Name']}/cluster" in [g["Properties"].get("LogGroupName") for g in groups]


def test_kubernetes_secrets_are_encrypted_with_our_key(kubernetes: Any) -> None:
    (encryption,) = kubernetes["EncryptionConfig"]
    assert encryption["Resources"] == ["secrets"]
    assert "LogsAndSecretsKey" in str(encryption["Provider"]["KeyArn"])


def test_the_deploying_role_keeps_no_rights_and_people_come_by_access_entries(
    kubernetes: Any, templates: dict[str, Template]
) -> None:
    assert kubernetes["AccessConfig"]["BootstrapClusterCreatorAdminPermissions"] is False
    entries = [e["Properties"] for e in resources_of(templates["cluster"], "AWS::EKS::AccessEntry").values()]
    by_person = {
        e["PrincipalArn"]: e["AccessPolicies"] for e in entries if isinstance(e["PrincipalArn"], str)
    }
    (admin,) = by_person["arn:aws:iam::111122223333:role/platform-admin"]
    (researcher,) = by_person["arn:aws:iam::111122223333:role/rl-researcher"]
    assert "AmazonEKSClusterAdminPolicy" in str(admin["PolicyArn"])
    assert "AmazonSagemakerHyperpodTrainingPolicy" in str(researcher["PolicyArn"])
    assert researcher["AccessScope"] == {"Type": "namespace", "Namespaces": ["ray"]}


def test_every_log_group_is_encrypted_limited_and_goes_with_its_stack(templates: dict[str, Template]) -> None:
    groups = {
        name: group
        for template in templates.values()
        for name, group in resources_of(template, "AWS::Logs::LogGroup").items()
    }
    assert groups
    for name, group in groups.items():
        assert group["Properties"]["KmsKeyId"], name
        assert group["Properties"]["RetentionInDays"] == 30, name
        assert (group["DeletionPolicy"], group["UpdateReplacePolicy"]) == ("Delete", "Delete"), name


def test_nothing_with_data_is_retained_unless_asked(templates: dict[str, Template]) -> None:
    """Several constructs of CDK keep their resource by default: each must have been decided."""
    kept = [
        f"{part}/{name}"
        for part, template in templates.items()
        for name, resource in template["Resources"].items()
        if resource.get("DeletionPolicy") not in (None, "Delete")
    ]
    assert kept == []


def test_no_action_is_a_wildcard(templates: dict[str, Template]) -> None:
    for statement in statements(templates):
        wild = [action for action in as_list(statement["Action"]) if action == "*" or action.endswith(":*")]
        assert wild == []


def test_resource_wildcards_are_those_of_the_document(templates: dict[str, Template]) -> None:
    assert undocumented_wildcards(templates) == [], "say in docs/security.md why they cannot be scoped"


def test_nodes_get_the_rights_that_hyperpod_documents(templates: dict[str, Template]) -> None:
    role = resources_of(templates["hyperpod"], "AWS::IAM::Role")
    (execution,) = [r["Properties"] for name, r in role.items() if name.startswith("Execution")]
    (trust,) = execution["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert "AmazonSageMakerClusterInstanceRolePolicy" in str(execution["ManagedPolicyArns"])
    granted = {a for s in statements({"": templates["hyperpod"]}) for a in as_list(s["Action"])}
    assert {"eks-auth:AssumeRoleForPodIdentity", "ec2:AssignPrivateIpAddresses", "s3:GetObject*"} <= granted


def test_everything_that_can_carry_a_tag_carries_the_deployments(templates: dict[str, Template]) -> None:
    untagged = [
        f"{part}/{name}"
        for part, template in templates.items()
        for name, resource in template["Resources"].items()
        if "Tags" in resource.get("Properties", {})
        and "hyperpod-rl:deployment" not in str(resource["Properties"]["Tags"])
    ]
    assert untagged == []
    assert "hyperpod-rl:deployment" in str(the_resource(templates["hyperpod"], "AWS::SageMaker::Cluster"))
