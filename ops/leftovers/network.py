"""What keeps a VPC from going: load balancers, endpoints, interfaces, security groups; and the VPC itself."""

from collections.abc import Iterator
from itertools import batched

from ops.leftovers.model import Found, Kind, Scope, tags_of

TAGS_PER_CALL = 20
GUARDDUTY = "guardduty-data"


def _load_balancers(scope: Scope) -> Iterator[Found]:
    rows = scope.aws.pages("elbv2", "describe_load_balancers", "LoadBalancers")
    vpcs = {row["LoadBalancerArn"]: row.get("VpcId") for row in rows}
    for arns in batched(vpcs, TAGS_PER_CALL):
        answer = scope.aws.client("elbv2").describe_tags(ResourceArns=list(arns))
        for row in answer["TagDescriptions"]:
            if evidence := scope.owns(tags_of(row["Tags"])):
                yield row["ResourceArn"], evidence


def _endpoints(scope: Scope, *, guardduty: bool) -> Iterator[Found]:
    for row in scope.in_our_vpcs("describe_vpc_endpoints", "VpcEndpoints"):
        is_live = row["State"].lower() not in {"deleting", "deleted"}
        if is_live and (GUARDDUTY in row["ServiceName"]) is guardduty:
            yield row["VpcEndpointId"], f"{row['ServiceName']} in {row['VpcId']}"


def _interfaces(scope: Scope) -> Iterator[Found]:
    """Those of other resources go with them; a free one is nobody's any more."""
    for row in scope.in_our_vpcs("describe_network_interfaces", "NetworkInterfaces"):
        yield (
            row["NetworkInterfaceId"],
            f"{row['Status']} in {row['VpcId']}: {row['Description'] or 'no description'}",
        )


def _security_groups(scope: Scope) -> Iterator[Found]:
    for row in scope.in_our_vpcs("describe_security_groups", "SecurityGroups"):
        if row["GroupName"] != "default":
            yield row["GroupId"], f"{row['GroupName']} in {row['VpcId']}"


def _delete_security_group(scope: Scope, identifier: str) -> None:
    """Groups that name each other can go only without their rules."""
    ec2 = scope.aws.client("ec2")
    (group,) = ec2.describe_security_groups(GroupIds=[identifier])["SecurityGroups"]
    if group["IpPermissions"]:
        ec2.revoke_security_group_ingress(GroupId=identifier, IpPermissions=group["IpPermissions"])
    if group["IpPermissionsEgress"]:
        ec2.revoke_security_group_egress(GroupId=identifier, IpPermissions=group["IpPermissionsEgress"])
    ec2.delete_security_group(GroupId=identifier)


def _addresses(scope: Scope) -> Iterator[Found]:
    for row in scope.aws.client("ec2").describe_addresses()["Addresses"]:
        if evidence := scope.owns(tags_of(row.get("Tags", []))):
            yield row["AllocationId"], evidence


def _vpcs(scope: Scope) -> Iterator[Found]:
    yield from ((vpc_id, f"tag, {scope.settings.name}") for vpc_id in scope.vpc_ids)


KINDS = (
    Kind(
        name="load balancer",
        find=_load_balancers,
        delete=lambda scope, arn: scope.aws.client("elbv2").delete_load_balancer(LoadBalancerArn=arn),
    ),
    Kind(
        name="GuardDuty endpoint",
        find=lambda scope: _endpoints(scope, guardduty=True),
        delete=lambda scope, name: scope.aws.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[name]),
    ),
    Kind(
        name="VPC endpoint",
        find=lambda scope: _endpoints(scope, guardduty=False),
        delete=lambda scope, name: scope.aws.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[name]),
    ),
    Kind(
        name="network interface",
        find=_interfaces,
        delete=lambda scope, name: scope.aws.client("ec2").delete_network_interface(NetworkInterfaceId=name),
    ),
    Kind(name="security group", find=_security_groups, delete=_delete_security_group),
    Kind(
        name="Elastic IP",
        find=_addresses,
        delete=lambda scope, name: scope.aws.client("ec2").release_address(AllocationId=name),
    ),
    Kind(name="VPC", find=_vpcs),
)
