"""What AWS refuses although the template is legal: the state of the account decides.

Each rule is a function from the account and a resource to the reason for a refusal, or None. The engine asks
the tables at the end before it creates, changes or deletes. Where AWS does not refuse
but leaves something broken behind (HyperPod without its role's permissions, a role deleted under its user),
the rule refuses all the same: a deployment that gets that far has the wrong order.
"""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Any

from tests.emulated.account import Account, Resource, generated_ids

Rule = Callable[[Account, Resource], str | None]

# --- before a creation --------------------------------------------------------------------------------------


def name_is_taken(account: Account, resource: Resource) -> str | None:
    """Two resources of a type cannot share their primary identifier."""
    other = account.resources.get(resource.key)
    if other is None:
        return None
    return f"AlreadyExists: {resource.identity.ref} was made by stack {other.stack} as {other.logical_id}"


def names_something_gone(account: Account, resource: Resource) -> str | None:
    """An id that was deleted cannot be used."""
    dangling = account.dangling(resource.properties)
    return f"InvalidParameter: {', '.join(sorted(dangling))} does not exist" if dangling else None


def eks_cluster_is_missing(account: Account, resource: Resource) -> str | None:
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


def addon_has_no_nodes(account: Account, resource: Resource) -> str | None:
    """An add-on with a deployment stays DEGRADED until the cluster has nodes."""
    name = resource.properties.get("AddonName")
    if name not in _NEEDS_NODES or any(account.running_nodes.values()):
        return None
    return f"Add-on {name} is DEGRADED: no nodes are available to schedule its pods"


def addon_has_no_identity(account: Account, resource: Resource) -> str | None:
    """The observability add-on's collector fails without the role that it writes metrics with."""
    name = "amazon-sagemaker-hyperpod-observability"
    if resource.properties.get("AddonName") != name or "PodIdentityAssociations" in resource.properties:
        return None
    if not _addon(account, "eks-pod-identity-agent"):
        return f"Add-on {name} is DEGRADED: the pod identity agent is not installed"
    namespaces = {item.properties["Namespace"] for item in account.of_type(_POD_IDENTITY)}
    if "hyperpod-observability" in namespaces:
        return None
    return f"Add-on {name} is DEGRADED: its service account has no pod identity"


_POD_IDENTITY = "AWS::EKS::PodIdentityAssociation"


def hyperpod_has_no_network_plugin(account: Account, resource: Resource) -> str | None:
    """Nodes do not join a cluster that gives pods no addresses."""
    if resource.resource_type != "AWS::SageMaker::Cluster" or _addon(account, "vpc-cni"):
        return None
    return "ValidationException: the EKS cluster has no VPC CNI add-on"


def hyperpod_role_lacks_permissions(account: Account, resource: Resource) -> str | None:
    """Instances fail to start when their role cannot make network interfaces or serve pod identities."""
    if resource.resource_type != "AWS::SageMaker::Cluster":
        return None
    for group in resource.properties["InstanceGroups"]:
        patterns = list(_allowed_actions(account, group["ExecutionRole"]))
        for action in ("ec2:CreateNetworkInterface", "eks-auth:AssumeRoleForPodIdentity"):
            if not any(fnmatchcase(action, pattern) for pattern in patterns):
                return (
                    f"AccessDeniedException: {group['ExecutionRole']} is not authorized to perform {action}"
                )
    return None


def hyperpod_group_blocks_its_own_traffic(account: Account, resource: Resource) -> str | None:
    """EFA's health check fails without all-traffic rules of the security group to itself, both ways."""
    if resource.resource_type != "AWS::SageMaker::Cluster":
        return None
    for group_id in resource.properties["VpcConfig"]["SecurityGroupIds"]:
        for direction, peer in (
            ("Ingress", "SourceSecurityGroupId"),
            ("Egress", "DestinationSecurityGroupId"),
        ):
            rules = _security_group_rules(account, group_id, direction)
            if not any(rule["IpProtocol"] == "-1" and rule.get(peer) == group_id for rule in rules):
                return (
                    f"EFA health checks did not run: {group_id} has no all-traffic {direction} rule to itself"
                )
    return None


def file_system_is_unreachable(account: Account, resource: Resource) -> str | None:
    """FSx checks that the security group lets Lustre through before it creates the file system."""
    if resource.resource_type != "AWS::FSx::FileSystem":
        return None
    for group_id in resource.properties.get("SecurityGroupIds", []):
        rules = _security_group_rules(account, group_id, "Ingress")
        if not any(_covers_port(rule, 988) for rule in rules):
            return f"InvalidNetworkSettings: {group_id} does not permit Lustre LNET traffic on port 988"
    return None


def internet_gateway_is_not_attached(account: Account, resource: Resource) -> str | None:
    """A route to an internet gateway and a NAT gateway both need the gateway on the VPC."""
    attachments = list(account.of_type("AWS::EC2::VPCGatewayAttachment"))
    gateway = resource.properties.get("GatewayId", "")
    if resource.resource_type == "AWS::EC2::Route" and gateway.startswith("igw-"):
        attached = any(attachment.mentions(gateway) for attachment in attachments)
        return None if attached else f"InvalidParameter: {gateway} is not attached to the route table's VPC"
    if resource.resource_type == "AWS::EC2::NatGateway":
        vpc = _vpc_of_subnet(account, resource.properties["SubnetId"])
        attached = any(attachment.mentions(vpc) for attachment in attachments)
        return None if attached else f"Network {vpc} has no Internet gateway attached"
    return None


def subnet_overlaps(account: Account, resource: Resource) -> str | None:
    """Subnets of a VPC share no address, so that none can be replaced by one of the same range."""
    if resource.resource_type != "AWS::EC2::Subnet":
        return None
    network = ip_network(resource.properties["CidrBlock"])
    for other in account.of_type("AWS::EC2::Subnet"):
        same_vpc = other.properties["VpcId"] == resource.properties["VpcId"]
        if same_vpc and network.overlaps(ip_network(other.properties["CidrBlock"])):
            return f"InvalidSubnet.Conflict: {network} conflicts with {other.identity.ref}"
    return None


# --- before a deletion --------------------------------------------------------------------------------------

_USERS: Mapping[str, tuple[str, ...]] = {
    "AWS::EC2::EIP": ("AWS::EC2::NatGateway",),
    "AWS::EC2::InternetGateway": ("AWS::EC2::VPCGatewayAttachment",),
    "AWS::EC2::RouteTable": ("AWS::EC2::SubnetRouteTableAssociation",),
    "AWS::EC2::SecurityGroup": (
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::VPCEndpoint",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::Lambda::Function",
        "AWS::SageMaker::Cluster",
        "AWS::SageMaker::Domain",
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
    "AWS::EKS::Cluster": ("AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"),
    "AWS::FSx::FileSystem": ("AWS::FSx::DataRepositoryAssociation",),
    "AWS::IAM::ManagedPolicy": ("AWS::IAM::Role",),
    "AWS::IAM::Role": (
        "AWS::CodeBuild::Project",
        "AWS::EC2::FlowLog",
        "AWS::EKS::Cluster",
        "AWS::EKS::PodIdentityAssociation",
        "AWS::Lambda::Function",
        "AWS::SageMaker::Cluster",
        "AWS::SageMaker::Domain",
    ),
    "AWS::SageMaker::Domain": ("AWS::SageMaker::Space", "AWS::SageMaker::UserProfile"),
}
"""Type -> types whose live resources keep it from being deleted while they name it."""


def still_in_use(account: Account, resource: Resource) -> str | None:
    """A resource cannot go while another one holds on to it."""
    identifiers = generated_ids(resource)
    for user in account.of_type(*_USERS.get(resource.resource_type, ())):
        if user.key != resource.key and any(map(user.mentions, identifiers)):
            return (
                f"DependencyViolation: {resource.identity.ref} is in use by "
                f"{user.resource_type} {user.identity.ref} ({user.logical_id})"
            )
    return None


def hyperpod_still_needs_the_policy(account: Account, resource: Resource) -> str | None:
    """HyperPod takes its network interfaces down with the permissions of the nodes' role."""
    if resource.resource_type != "AWS::IAM::Policy":
        return None
    roles = [
        role
        for role in account.of_type("AWS::IAM::Role")
        if role.identity.ref in resource.properties["Roles"]
    ]
    for cluster in account.of_type("AWS::SageMaker::Cluster"):
        if any(cluster.mentions(role.identity.attributes["Arn"]) for role in roles):
            return f"{cluster.identity.ref} still needs the policy {resource.identity.ref}"
    return None


def public_addresses_are_mapped(account: Account, resource: Resource) -> str | None:
    """An internet gateway stays on the VPC while a NAT gateway has a public address there."""
    if resource.resource_type != "AWS::EC2::VPCGatewayAttachment":
        return None
    for gateway in account.of_type("AWS::EC2::NatGateway"):
        vpc = _vpc_of_subnet(account, gateway.properties["SubnetId"])
        if resource.mentions(vpc):
            return f"DependencyViolation: Network {vpc} has some mapped public address(es)"
    return None


BEFORE_CREATE: tuple[Rule, ...] = (
    name_is_taken,
    names_something_gone,
    eks_cluster_is_missing,
    addon_has_no_nodes,
    addon_has_no_identity,
    hyperpod_has_no_network_plugin,
    hyperpod_role_lacks_permissions,
    hyperpod_group_blocks_its_own_traffic,
    subnet_overlaps,
    file_system_is_unreachable,
    internet_gateway_is_not_attached,
)
BEFORE_UPDATE: tuple[Rule, ...] = (names_something_gone,)
BEFORE_DELETE: tuple[Rule, ...] = (
    still_in_use,
    hyperpod_still_needs_the_policy,
    public_addresses_are_mapped,
)


def refusal(rules: tuple[Rule, ...], account: Account, resource: Resource) -> str | None:
    """The first rule's reason to refuse, or None."""
    return next((reason for rule in rules if (reason := rule(account, resource))), None)


# --- looking things up --------------------------------------------------------------------------------------


def _addon(account: Account, name: str) -> bool:
    return any(addon.properties["AddonName"] == name for addon in account.of_type("AWS::EKS::Addon"))


def _allowed_actions(account: Account, role_arn: str) -> Iterator[str]:
    """Action patterns that the role's inline policies and the attached policy resources allow."""
    for role in account.of_type("AWS::IAM::Role"):
        if role.identity.attributes["Arn"] != role_arn:
            continue
        documents = [policy["PolicyDocument"] for policy in role.properties.get("Policies", [])]
        documents += [
            policy.properties["PolicyDocument"]
            for policy in account.of_type("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
            if role.identity.ref in policy.properties.get("Roles", [])
        ]
        for document in documents:
            yield from _actions(document)


def _actions(document: Mapping[str, Any]) -> Iterator[str]:
    for statement in document["Statement"]:
        if statement["Effect"] == "Allow":
            actions = statement.get("Action", [])
            yield from [actions] if isinstance(actions, str) else actions


def _security_group_rules(account: Account, group_id: str, direction: str) -> list[Mapping[str, Any]]:
    """Rules inside the group's own resource and those that are resources of their own."""
    rules: list[Mapping[str, Any]] = [
        rule.properties
        for rule in account.of_type(f"AWS::EC2::SecurityGroup{direction}")
        if rule.properties["GroupId"] == group_id
    ]
    for group in account.of_type("AWS::EC2::SecurityGroup"):
        if group.identity.attributes["GroupId"] == group_id:
            rules += group.properties.get(f"SecurityGroup{direction}", [])
    return rules


def _covers_port(rule: Mapping[str, Any], port: int) -> bool:
    return rule["IpProtocol"] == "-1" or int(rule["FromPort"]) <= port <= int(rule["ToPort"])


def _vpc_of_subnet(account: Account, subnet_id: str) -> str:
    subnet = account.resources["AWS::EC2::Subnet", subnet_id]
    vpc: str = subnet.properties["VpcId"]
    return vpc
