"""The regions in which HyperPod offers the walkthrough's instance types, and what differs between them.

Region list and Grafana's regions: the schemas of cfn-lint 1.58.0 (2026-10-20).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region."""

    zone_prefix: str
    """How the ids of its availability zones begin."""
    grafana: bool
    """Whether Managed Grafana is offered."""
    zones_without_eks: tuple[str, ...] = ()
    """Zone ids that EKS refuses for control-plane subnets."""


REGIONS = {
    "us-east-1": Region(zone_prefix="use1", grafana=True, zones_without_eks=("use1-az3",)),
    "us-east-2": Region(zone_prefix="use2", grafana=True),
    "us-west-2": Region(zone_prefix="usw2", grafana=True),
    "ap-northeast-1": Region(zone_prefix="apne1", grafana=True),
    "ap-northeast-2": Region(zone_prefix="apne2", grafana=True),
    "eu-central-1": Region(zone_prefix="euc1", grafana=True),
    "eu-north-1": Region(zone_prefix="eun1", grafana=False),
    "eu-south-2": Region(zone_prefix="eus2", grafana=False),
    "eu-west-2": Region(zone_prefix="euw2", grafana=True),
}
