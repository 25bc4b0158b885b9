"""Each rule of the account refuses what it is there for; the same template with the fault mended passes."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.emulated.account import Account, Resource
from tests.emulated.identities import Identity
from tests.emulated.rules import BEFORE_CREATE, BEFORE_DELETE, refusal

ROLE = "arn:aws:iam::123456789012:role/nodes"
CLUSTER = "arn:aws:eks:us-east-2:123456789012:cluster/c"
GROUP, SUBNET, VPC = "sg-" + "1" * 17, "subnet-" + "2" * 17, "vpc-" + "3" * 17
GATEWAY = "igw-" + "4" * 17


def resource(
    resource_type: str, ref: str, properties: Mapping[str, Any] | None = None, **attributes: str
) -> Resource:
    identity = Identity(primary=(ref,), ref=ref, attributes=attributes)
    return Resource(
        resource_type=resource_type,
        logical_id=ref,
        stack="s",
        identity=identity,
        properties=properties or {},
    )


def rule_of(direction: str, **properties: str) -> Resource:
    return resource(
        f"AWS::EC2::SecurityGroup{direction}",
        f"sgr-{direction}",
        {"GroupId": GROUP, "IpProtocol": "-1"} | properties,
    )


def addon(name: str) -> Resource:
    return resource("AWS::EKS::Addon", name, {"AddonName": name, "ClusterName": "c"})


POLICY = {
    "PolicyDocument": {
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["ec2:*Interface", "eks-auth:AssumeRoleForPodIdentity"],
                "Resource": "*",
            }
        ]
    },
    "Roles": ["nodes"],
}
EKS = resource("AWS::EKS::Cluster", "c", Arn=CLUSTER)
NODE_ROLE = resource("AWS::IAM::Role", "nodes", Arn=ROLE)
NODE_POLICY = resource("AWS::IAM::Policy", "node-policy", POLICY)
SELF_RULES = (
    rule_of("Ingress", SourceSecurityGroupId=GROUP),
    rule_of("Egress", DestinationSecurityGroupId=GROUP),
)
HYPERPOD = resource(
    "AWS::SageMaker::Cluster",
    "arn:aws:sagemaker:us-east-2:123456789012:cluster/abc",
    {
        "InstanceGroups": [{"ExecutionRole": ROLE}],
        "Orchestrator": {"Eks": {"ClusterArn": CLUSTER}},
        "VpcConfig": {"SecurityGroupIds": [GROUP], "Subnets": [SUBNET]},
    },
)
NODE_SUBNET = resource(
    "AWS::EC2::Subnet", SUBNET, {"VpcId": VPC, "CidrBlock": "10.0.0.0/24"}, SubnetId=SUBNET
)
ATTACHMENT = resource("AWS::EC2::VPCGatewayAttachment", "a", {"VpcId": VPC, "InternetGatewayId": GATEWAY})
NAT = resource("AWS::EC2::NatGateway", "nat-1", {"SubnetId": SUBNET})
FILE_SYSTEM = resource("AWS::FSx::FileSystem", "fs-1", {"SecurityGroupIds": [GROUP]})

CREATIONS: list[tuple[Resource, tuple[Resource, ...], tuple[Resource, ...], str]] = [
    (addon("vpc-cni"), (), (EKS,), "No cluster found"),
    (HYPERPOD, (NODE_ROLE, NODE_POLICY, *SELF_RULES), (addon("vpc-cni"),), "no VPC CNI"),
    (HYPERPOD, (addon("vpc-cni"), NODE_ROLE, *SELF_RULES), (NODE_POLICY,), "ec2:CreateNetworkInterface"),
    (
        HYPERPOD,
        (addon("vpc-cni"), NODE_ROLE, NODE_POLICY, SELF_RULES[0]),
        SELF_RULES[1:],
        "Egress rule to itself",
    ),
    (FILE_SYSTEM, (), (rule_of("Ingress", IpProtocol="tcp", FromPort="900", ToPort="1000"),), "port 988"),
    (NAT, (NODE_SUBNET,), (ATTACHMENT,), "no Internet gateway attached"),
    (resource("AWS::EC2::Route", "r", {"GatewayId": GATEWAY}), (), (ATTACHMENT,), "is not attached"),
]
"""Resource, what is there, what is missing, what the refusal says."""

DELETIONS: list[tuple[Resource, Resource, str]] = [
    (EKS, HYPERPOD, "in use by AWS::SageMaker::Cluster"),
    (
        resource("AWS::EC2::SecurityGroup", GROUP, GroupId=GROUP),
        HYPERPOD,
        "in use by AWS::SageMaker::Cluster",
    ),
    (NODE_SUBNET, NAT, "in use by AWS::EC2::NatGateway"),
    (resource("AWS::EC2::VPC", VPC, VpcId=VPC), NODE_SUBNET, "in use by AWS::EC2::Subnet"),
    (NODE_ROLE, HYPERPOD, "in use by AWS::SageMaker::Cluster"),
]
"""Resource, what still uses it, what the refusal says."""


def account_with(*resources: Resource) -> Account:
    account = Account()
    for item in resources:
        account.add(item)
    return account


@pytest.mark.parametrize(("made", "present", "missing", "message"), CREATIONS)
def test_creation_is_refused_until_what_it_needs_is_there(
    made: Resource, present: tuple[Resource, ...], missing: tuple[Resource, ...], message: str
) -> None:
    account = account_with(*present)
    assert message in (refusal(BEFORE_CREATE, account, made) or "")
    for item in missing:
        account.add(item)
    assert refusal(BEFORE_CREATE, account, made) is None


@pytest.mark.parametrize(("used", "user", "message"), DELETIONS)
def test_deletion_is_refused_while_something_uses_it(used: Resource, user: Resource, message: str) -> None:
    account = account_with(used, user, NODE_SUBNET)
    assert message in (refusal(BEFORE_DELETE, account, used) or "")
    account.remove(user)
    assert refusal(BEFORE_DELETE, account_with(used), used) is None


@pytest.mark.parametrize("name", ["coredns", "cert-manager", "aws-fsx-csi-driver", "metrics-server"])
def test_addon_with_pods_waits_for_nodes(name: str) -> None:
    account = account_with(EKS)
    assert "no nodes are available" in (refusal(BEFORE_CREATE, account, addon(name)) or "")
    account.running_nodes[HYPERPOD.identity.ref] = 4
    assert refusal(BEFORE_CREATE, account, addon(name)) is None


def test_observability_addon_needs_its_identity() -> None:
    account = account_with(EKS, addon("eks-pod-identity-agent"))
    account.running_nodes[HYPERPOD.identity.ref] = 4
    observability = addon("amazon-sagemaker-hyperpod-observability")
    assert "no pod identity" in (refusal(BEFORE_CREATE, account, observability) or "")
    account.add(resource("AWS::EKS::PodIdentityAssociation", "a-1", {"Namespace": "hyperpod-observability"}))
    assert refusal(BEFORE_CREATE, account, observability) is None


def test_policy_stays_while_hyperpod_needs_it() -> None:
    account = account_with(NODE_ROLE, NODE_POLICY, HYPERPOD)
    assert "still needs the policy" in (refusal(BEFORE_DELETE, account, NODE_POLICY) or "")
    account.remove(HYPERPOD)
    assert refusal(BEFORE_DELETE, account, NODE_POLICY) is None


def test_gateway_stays_while_addresses_are_mapped() -> None:
    account = account_with(NODE_SUBNET, NAT, ATTACHMENT)
    assert "mapped public address" in (refusal(BEFORE_DELETE, account, ATTACHMENT) or "")
    account.remove(NAT)
    assert refusal(BEFORE_DELETE, account, ATTACHMENT) is None


def test_subnets_share_no_address() -> None:
    other = resource("AWS::EC2::Subnet", "subnet-x", {"VpcId": VPC, "CidrBlock": "10.0.0.128/25"})
    assert "InvalidSubnet.Conflict" in (refusal(BEFORE_CREATE, account_with(NODE_SUBNET), other) or "")


def test_name_can_be_given_once_and_an_id_not_after_its_end() -> None:
    account = account_with(NODE_SUBNET)
    assert "AlreadyExists" in (refusal(BEFORE_CREATE, account, NODE_SUBNET) or "")
    account.remove(NODE_SUBNET)
    assert f"{SUBNET} does not exist" in (refusal(BEFORE_CREATE, account, NAT) or "")
