"""What AWS refuses although the template is legal: the state of the account decides.

Each rule is one function from the account and a resource to the reason for a refusal, or None. The engine
asks the rules before it creates and before it deletes. Sources: the services' user guides, as summed up in
docs/decisions; where AWS does not refuse but leaves something broken behind (HyperPod after its EKS cluster),
the rule refuses.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.emulated.account import Account, Resource

Rule = Callable[[Account, Resource], str | None]

_USERS: Mapping[str, tuple[str, ...]] = {
    "AWS::EC2::SecurityGroup": (
        "AWS::EC2::VPCEndpoint",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::Lambda::Function",
        "AWS::SageMaker::Cluster",
        "AWS::SageMaker::Domain",
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
    "AWS::EC2::Subnet": (
        "AWS::EC2::NatGateway",
        "AWS::EC2::VPCEndpoint",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::Lambda::Function",
        "AWS::SageMaker::Cluster",
        "AWS::SageMaker::Domain",
    ),
    "AWS::EC2::VPC": (
        "AWS::EC2::RouteTable",
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::Subnet",
        "AWS::EC2::VPCEndpoint",
        "AWS::EC2::VPCGatewayAttachment",
    ),
    "AWS::EC2::RouteTable": ("AWS::EC2::SubnetRouteTableAssociation",),
    "AWS::EC2::InternetGateway": ("AWS::EC2::VPCGatewayAttachment",),
    "AWS::EC2::EIP": ("AWS::EC2::NatGateway",),
    "AWS::EKS::Cluster": ("AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"),
    "AWS::FSx::FileSystem": ("AWS::FSx::DataRepositoryAssociation",),
    "AWS::IAM::ManagedPolicy": ("AWS::IAM::Role",),
    "AWS::SageMaker::Domain": ("AWS::SageMaker::UserProfile", "AWS::SageMaker::Space"),
}
"""Type -> types whose live resources keep it from being deleted while they name it."""


def still_in_use(account: Account, resource: Resource) -> str | None:
    """A resource cannot go while another one holds on to it."""
    user_types = _USERS.get(resource.resource_type, ())
    identifiers = _identifiers(resource)
    for user in account.of_type(*user_types):
        if user.key != resource.key and any(map(user.mentions, identifiers)):
            return (
                f"DependencyViolation: {resource.identity.ref} is in use by "
                f"{user.resource_type} {user.identity.ref} ({user.logical_id})"
            )
    return None


def names_something_gone(account: Account, resource: Resource) -> str | None:
    """An id that was deleted cannot be used."""
    dangling = account.dangling(resource.properties)
    return f"InvalidParameter: {', '.join(sorted(dangling))} does not exist" if dangling else None


def name_is_taken(account: Account, resource: Resource) -> str | None:
    """Two resources of a type cannot share their primary identifier."""
    other = account.resources.get(resource.key)
    if other is None:
        return None
    return f"AlreadyExists: {resource.identity.ref} was made by stack {other.stack} as {other.logical_id}"


def cluster_is_gone(account: Account, resource: Resource) -> str | None:
    """What belongs to an EKS cluster cannot be made without it."""
    name = resource.properties.get("ClusterName")
    if not resource.resource_type.startswith("AWS::EKS::") or name is None:
        return None
    if any(cluster.identity.ref == name for cluster in account.of_type("AWS::EKS::Cluster")):
        return None
    return f"ResourceNotFoundException: No cluster found for name: {name}"


_NEEDS_NODES = {
    "amazon-sagemaker-hyperpod-observability",
    "amazon-sagemaker-spaces",
    "aws-fsx-csi-driver",
    "cert-manager",
    "coredns",
    "metrics-server",
}
"""EKS add-ons whose pods must run before the add-on becomes ACTIVE."""


def no_nodes_yet(account: Account, resource: Resource) -> str | None:
    """An add-on with a deployment stays DEGRADED until the cluster has nodes."""
    if resource.resource_type != "AWS::EKS::Addon" or resource.properties["AddonName"] not in _NEEDS_NODES:
        return None
    if any(account.of_type("AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup")):
        return None
    return (
        f"Add-on {resource.properties['AddonName']} is DEGRADED: no nodes are available to schedule its pods"
    )


BEFORE_CREATE: tuple[Rule, ...] = (name_is_taken, names_something_gone, cluster_is_gone, no_nodes_yet)
BEFORE_DELETE: tuple[Rule, ...] = (still_in_use,)


def refusal(rules: tuple[Rule, ...], account: Account, resource: Resource) -> str | None:
    """The first rule's reason to refuse, or None."""
    return next((reason for rule in rules if (reason := rule(account, resource))), None)


def _identifiers(resource: Resource) -> set[str]:
    values: set[Any] = {resource.identity.ref, *resource.identity.attributes.values()}
    return {value for value in values if len(value) > 8 and ("-" in value or ":" in value)}
