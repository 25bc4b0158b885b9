"""Who is created before whom. Deletion takes the reverse way, so each row says both.

CloudFormation infers an order from references only; several of these pairs have none, and legal orders that
break them have been seen: a HyperPod cluster before its role's policy, DNS before there is a node.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from stacks.settings import load_settings
from tests.infra.conftest import Template, stack_dependencies
from tests.infra.graph import Graph

# part of the stack, resource type, part of the logical id
type Selector = tuple[str, str, str]

HYPERPOD: Selector = ("hyperpod", "AWS::SageMaker::Cluster", "")
WAITER: Selector = ("hyperpod", "AWS::CloudFormation::CustomResource", "Readiness")
KUBERNETES: Selector = ("cluster", "AWS::EKS::Cluster", "")
DEPENDENCIES: Selector = ("cluster", "Custom::HelmRelease", "")
LATE_ADDONS: Selector = ("addons", "AWS::EKS::Addon", "")
FSX_DRIVER: Selector = ("addons", "AWS::EKS::Addon", "fsx")
OPERATOR: Selector = ("ray", "Custom::AWSCDK-EKS-HelmChart", "")
RAY_OBJECTS: Selector = ("ray", "Custom::AWSCDK-EKS-KubernetesResource", "")

BEFORE: list[tuple[Selector, Selector]] = [
    # network
    (("network", "AWS::EC2::SecurityGroup", "Nodes"), KUBERNETES),
    (("network", "AWS::EC2::SecurityGroupIngress", "AllFromMembers"), HYPERPOD),
    (("network", "AWS::EC2::SecurityGroupEgress", "AllToMembers"), HYPERPOD),
    (("network", "AWS::EC2::SecurityGroupIngress", "Lustre"), ("storage", "AWS::FSx::FileSystem", "")),
    (("network", "AWS::EC2::SecurityGroup", "Nodes"), ("storage", "AWS::FSx::FileSystem", "")),
    (("network", "AWS::EC2::Route", "NodeSubnet"), HYPERPOD),
    (("network", "AWS::EC2::NatGateway", ""), HYPERPOD),
    (("network", "AWS::EC2::VPCEndpoint", "S3"), HYPERPOD),
    (("network", "AWS::KMS::Key", ""), KUBERNETES),
    # cluster
    (("cluster", "AWS::Logs::LogGroup", "ControlPlaneLogs"), KUBERNETES),
    (("cluster", "AWS::EKS::AccessEntry", "Charts"), DEPENDENCIES),
    (("cluster", "AWS::IAM::Policy", "ChartsProjectRole"), DEPENDENCIES),
    (("cluster", "AWS::EKS::Addon", "VpcCni"), DEPENDENCIES),
    # HyperPod
    (KUBERNETES, HYPERPOD),
    (DEPENDENCIES, HYPERPOD),
    (("cluster", "AWS::EKS::Addon", "VpcCni"), HYPERPOD),
    (("cluster", "AWS::EKS::Addon", "KubeProxy"), HYPERPOD),
    (("cluster", "AWS::EKS::Addon", "PodIdentityAgent"), HYPERPOD),
    (("hyperpod", "AWS::IAM::Role", "Execution"), HYPERPOD),
    (("hyperpod", "AWS::IAM::Policy", "Execution"), HYPERPOD),
    (("hyperpod", "Custom::CDKBucketDeployment", "Lifecycle"), HYPERPOD),
    (("hyperpod", "AWS::S3::BucketPolicy", "Lifecycle"), HYPERPOD),
    (("hyperpod", "Custom::ServiceLogs", ""), HYPERPOD),
    (HYPERPOD, WAITER),
    # what needs nodes
    (WAITER, LATE_ADDONS),
    (WAITER, ("observability", "AWS::EKS::Addon", "")),
    (WAITER, OPERATOR),
    (("addons", "AWS::IAM::ManagedPolicy", "FsxCsi"), FSX_DRIVER),
    (FSX_DRIVER, RAY_OBJECTS),
    (("addons", "AWS::EKS::Addon", "coredns"), RAY_OBJECTS),
    (("storage", "AWS::FSx::FileSystem", ""), RAY_OBJECTS),
    (("registry", "AWS::CloudFormation::CustomResource", ""), RAY_OBJECTS),
    (OPERATOR, RAY_OBJECTS),
]


@pytest.fixture(scope="module")
def graph(assembly: Callable[[str], dict[str, Template]], directory_of: Callable[[str], Path]) -> Graph:
    return Graph(
        templates=assembly("walkthrough"),
        stacks_before=stack_dependencies(load_settings(), directory_of("walkthrough")),
    )


@pytest.mark.parametrize(
    ("earlier", "later"), BEFORE, ids=[f"{a[2] or a[1]}-before-{b[2] or b[1]}" for a, b in BEFORE]
)
def test_created_before_and_deleted_after(graph: Graph, earlier: Selector, later: Selector) -> None:
    earlier_ids, later_ids = graph.find(*earlier), graph.find(*later)
    assert earlier_ids, f"nothing matches {earlier}"
    assert later_ids, f"nothing matches {later}"
    broken = [
        (earlier_id, later_id)
        for earlier_id in earlier_ids
        for later_id in later_ids
        if not graph.waits_for((later[0], later_id), (earlier[0], earlier_id))
    ]
    assert broken == []


def test_no_resource_waits_for_itself(graph: Graph) -> None:
    assert {part: graph.cycle(part) for part in graph.templates} == {part: [] for part in graph.templates}


def test_no_stack_can_be_destroyed_under_another(graph: Graph) -> None:
    """References between stacks are exports, which CloudFormation keeps while anybody imports them."""
    for part, template in graph.templates.items():
        text = str(template)
        assert "Fn::GetStackOutput" not in text, part
    assert "Fn::ImportValue" in str(graph.templates["hyperpod"])
