"""How the VPC's addresses are divided: pure arithmetic, so that settings are judged before any construct.

The lower half of the VPC holds the public and the control-plane subnets, the upper half the one subnet of all
nodes and of the file system. Neither the VPC's range nor a subnet's can change after creation, so the node
subnet is the whole upper half: a size that followed the number of nodes would replace it at every change.
"""

from dataclasses import dataclass
from ipaddress import IPv4Network

SMALL_SUBNET_PREFIX = 26
"""Public and control-plane subnets: NAT gateway, EKS, endpoints, Lambda functions, CodeBuild."""
MAX_ZONES = 4
"""Zones of the control plane for which ranges are kept, so that adding a zone moves nothing."""
RESERVED_BY_AWS = 5
"""Addresses of every subnet that AWS keeps for itself."""
FILE_SYSTEM_INTERFACES = 32
"""Generous room for the file servers of FSx for Lustre: one per 1.2 or 2.4 TiB, and the metadata server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetPlan:
    """Ranges of all subnets; those of a zone keep their place in the order of zones."""

    public: tuple[IPv4Network, ...]
    control_plane: tuple[IPv4Network, ...]
    nodes: IPv4Network


def needed_addresses(*, pod_addresses: int, growth_factor: int) -> int:
    """Addresses that the node subnet must hold: pods take theirs from it."""
    return pod_addresses * growth_factor + FILE_SYSTEM_INTERFACES + RESERVED_BY_AWS


def plan_subnets(*, vpc: IPv4Network, addresses: int) -> SubnetPlan:
    """Divide the VPC. Raises ValueError with the numbers when a part does not fit into its half."""
    lower, upper = vpc.subnets(prefixlen_diff=1)
    small = SMALL_SUBNET_PREFIX
    if 2 * MAX_ZONES * 2 ** (32 - small) > lower.num_addresses:
        raise ValueError(f"{2 * MAX_ZONES} subnets of /{small} do not fit into {lower}, its lower half")
    if addresses > upper.num_addresses:
        raise ValueError(
            f"the nodes need {addresses} addresses, its upper half {upper} holds {upper.num_addresses}"
        )
    blocks = list(lower.subnets(new_prefix=small))
    return SubnetPlan(
        public=tuple(blocks[:MAX_ZONES]),
        control_plane=tuple(blocks[MAX_ZONES : 2 * MAX_ZONES]),
        nodes=upper,
    )
