"""What settings demand of each other. Each rule yields a fault per violation; `broken_rules` runs all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from stacks.addon_versions import ADDON_VERSIONS
from stacks.faults import Fault
from stacks.regions import REGIONS

if TYPE_CHECKING:  # the settings run these rules, so they import this module
    from stacks.settings import InstanceGroup, Settings

type Rule = Callable[[Settings], Iterator[Fault]]
type GroupRule = Callable[[InstanceGroup, str], Iterator[Fault]]

SERVICE_NETWORK = IPv4Network("172.20.0.0/16")
"""Addresses of Kubernetes services; the VPC must not overlap it."""
GPU_RESOURCE = "nvidia.com/gpu"
PRIVATE_NETWORKS = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
LUSTRE_THROUGHPUTS = (125, 250, 500, 1000)
LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
PODS_PER_NODE = 8
"""Pods with an address that every node runs: health agent, device plugin, metric exporters, one Ray pod."""
PODS_PER_CLUSTER = 20
"""Pods with an address that run somewhere: DNS, certificates, FSx controller, metrics, operators."""
RESERVED_LABEL_DOMAINS = ("kubernetes.io", "k8s.io", "eks.amazonaws.com", "sagemaker.amazonaws.com")


def broken_rules(settings: Settings) -> Iterator[Fault]:
    """Every fault of settings whose fields are each valid by themselves."""
    for rule in RULES:
        yield from rule(settings)
    for index, group in enumerate(settings.instance_groups):
        for group_rule in GROUP_RULES:
            yield from group_rule(group, f"instance_groups[{index}]")


# --- where ------------------------------------------------------------------------------------------------
def _region_is_supported(settings: Settings) -> Iterator[Fault]:
    if settings.region not in REGIONS:
        yield Fault(
            field="region",
            value=settings.region,
            rule="HyperPod does not offer the walkthrough's instance types there",
            remedy=f"Use one of: {_listing(REGIONS)}.",
        )


def _zones_lie_in_the_region(settings: Settings) -> Iterator[Fault]:
    region = REGIONS.get(settings.region)
    if region is None:
        return
    for index, zone in enumerate(settings.network.control_plane_zone_ids):
        if not zone.startswith(f"{region.zone_prefix}-"):
            yield Fault(
                field=f"network.control_plane_zone_ids[{index}]",
                value=zone,
                rule=f"is not a zone of {settings.region}",
                remedy=f"Use zone ids that begin with {region.zone_prefix}-az.",
            )
        elif zone in region.zones_without_eks:
            yield Fault(
                field=f"network.control_plane_zone_ids[{index}]",
                value=zone,
                rule="EKS does not place a control plane in this zone",
                remedy=f"Use another zone of {settings.region}.",
            )


def _zones_differ(settings: Settings) -> Iterator[Fault]:
    for zone in _repeated(settings.network.control_plane_zone_ids):
        yield Fault(
            field="network.control_plane_zone_ids",
            value=zone,
            rule="is listed twice, but EKS needs subnets in at least two zones",
            remedy="List each zone once.",
        )


def _hyperpod_zone_is_a_control_plane_zone(settings: Settings) -> Iterator[Fault]:
    network = settings.network
    if network.hyperpod_zone_id not in network.control_plane_zone_ids:
        yield Fault(
            field="network.hyperpod_zone_id",
            value=network.hyperpod_zone_id,
            rule="is not among network.control_plane_zone_ids, so the nodes' zone would have no NAT gateway",
            remedy=f"Use one of {_listing(network.control_plane_zone_ids)}, or add it to that list.",
        )


# --- addresses --------------------------------------------------------------------------------------------
def _vpc_range_is_private(settings: Settings) -> Iterator[Fault]:
    vpc = settings.network.vpc_cidr
    if not _is_private(vpc):
        yield Fault(
            field="network.vpc_cidr",
            value=vpc,
            rule="is not a private network",
            remedy=f"Use a part of {_listing(PRIVATE_NETWORKS)}.",
        )
    if vpc.overlaps(SERVICE_NETWORK):
        yield Fault(
            field="network.vpc_cidr",
            value=vpc,
            rule=f"overlaps {SERVICE_NETWORK}, the addresses of Kubernetes services",
            remedy="Use another network, as 10.0.0.0/16.",
        )


def _subnets_fit(settings: Settings) -> Iterator[Fault]:
    network = settings.network
    if not 16 <= network.vpc_cidr.prefixlen <= 22:
        yield Fault(
            field="network.vpc_cidr",
            value=network.vpc_cidr,
            rule="a VPC's range here is between /16 and /22",
            remedy="Use a prefix length of 16 to 22.",
        )
        return
    try:
        _ = settings.subnet_plan
    except ValueError as error:
        yield Fault(
            field="network.vpc_cidr",
            value=network.vpc_cidr,
            rule=f"is too small: {error}",
            remedy="Use a larger network, fewer nodes, or a smaller network.growth_factor.",
        )


# --- Kubernetes -------------------------------------------------------------------------------------------
def _kubernetes_version_is_known(settings: Settings) -> Iterator[Fault]:
    if settings.kubernetes.version not in ADDON_VERSIONS:
        yield Fault(
            field="kubernetes.version",
            value=settings.kubernetes.version,
            rule="HyperPod does not accept it, or its add-on versions are not in stacks/addon_versions.py",
            remedy=f"Use one of: {_listing(ADDON_VERSIONS)}.",
        )


def _public_access_is_limited(settings: Settings) -> Iterator[Fault]:
    kubernetes = settings.kubernetes
    cidrs = kubernetes.public_access_cidrs
    if kubernetes.is_public and not cidrs:
        yield Fault(
            field="kubernetes.public_access_cidrs",
            value="[]",
            rule="is required when the API server's access is public",
            remedy='List the networks of your people, or set kubernetes.endpoint_access to "private".',
        )
    if not kubernetes.is_public and cidrs:
        yield Fault(
            field="kubernetes.public_access_cidrs",
            value=_listing(cidrs),
            rule="has no meaning with a private API server",
            remedy='Remove it, or set kubernetes.endpoint_access to "public-and-private".',
        )
    for index, cidr in enumerate(cidrs):
        if cidr.prefixlen < 8 or _is_private(cidr):
            yield Fault(
                field=f"kubernetes.public_access_cidrs[{index}]",
                value=cidr,
                rule="must be public networks of /8 or smaller",
                remedy="Give the public addresses behind which your people sit, as 198.51.100.7/32.",
            )


def _principals_differ(settings: Settings) -> Iterator[Fault]:
    access = settings.access
    for arn in _repeated((*access.admin_principal_arns, *access.researcher_principal_arns)):
        yield Fault(
            field="access",
            value=arn,
            rule="is listed twice, but EKS allows one access entry per principal",
            remedy="List it once: administrators need no second entry as researchers.",
        )


def _log_retention_is_offered(settings: Settings) -> Iterator[Fault]:
    if settings.log_retention_days not in LOG_RETENTION_DAYS:
        yield Fault(
            field="log_retention_days",
            value=settings.log_retention_days,
            rule="CloudWatch does not offer it",
            remedy=f"Use one of: {_listing(LOG_RETENTION_DAYS)}.",
        )


# --- storage and observability ----------------------------------------------------------------------------
def _lustre_size_is_offered(settings: Settings) -> Iterator[Fault]:
    capacity, throughput = settings.storage.capacity_gib, settings.storage.throughput_mbps_per_tib
    if capacity != 1200 and (capacity <= 0 or capacity % 2400):
        yield Fault(
            field="storage.capacity_gib",
            value=capacity,
            rule="FSx for Lustre offers 1200, 2400 and multiples of 2400 GiB",
            remedy=f"Use {max(2400, round(capacity / 2400) * 2400)}.",
        )
    if throughput not in LUSTRE_THROUGHPUTS:
        yield Fault(
            field="storage.throughput_mbps_per_tib",
            value=throughput,
            rule="FSx for Lustre does not offer it for PERSISTENT_2",
            remedy=f"Use one of: {_listing(LUSTRE_THROUGHPUTS)}.",
        )


def _staged_folders_differ(settings: Settings) -> Iterator[Fault]:
    for folder in _repeated([artifact.folder for artifact in settings.staging.artifacts]):
        yield Fault(
            field="staging.artifacts",
            value=folder,
            rule="two artifacts go to one folder",
            remedy="Give each artifact a folder of its own.",
        )


def _hub_token_lies_in_the_region(settings: Settings) -> Iterator[Fault]:
    arn = settings.staging.hub_token_secret_arn
    if arn and arn.split(":")[3] != settings.region:
        yield Fault(
            field="staging.hub_token_secret_arn",
            value=arn,
            rule=f"is not in {settings.region}",
            remedy=f"Replicate the secret to {settings.region} and give the replica's ARN.",
        )


def _grafana_is_offered(settings: Settings) -> Iterator[Fault]:
    region = REGIONS.get(settings.region)
    if settings.observability.wants_grafana and region is not None and not region.grafana:
        yield Fault(
            field="observability.grafana_authentication",
            value=settings.observability.grafana_authentication,
            rule=f"Managed Grafana is not offered in {settings.region}",
            remedy='Set it to "none", or use another region.',
        )


# --- instance groups --------------------------------------------------------------------------------------
def _group_names_differ(settings: Settings) -> Iterator[Fault]:
    for name in _repeated(group.name for group in settings.instance_groups):
        yield Fault(
            field="instance_groups",
            value=name,
            rule="two groups have this name",
            remedy="Give every group a name of its own.",
        )


def _pods_fit_on_the_nodes(settings: Settings) -> Iterator[Fault]:
    nodes = sum(group.instance_count for group in settings.instance_groups)
    room = sum(group.instance_count * group.type.max_pods for group in settings.instance_groups)
    needed = nodes * PODS_PER_NODE + PODS_PER_CLUSTER
    if nodes and room < needed:
        yield Fault(
            field="instance_groups",
            value=_listing(group.instance_type for group in settings.instance_groups),
            rule=f"{nodes} nodes have addresses for {room} pods; system and Ray need about {needed}",
            remedy="Use larger types: a node's pods share the addresses of one network interface.",
        )


def _ray_groups_exist(settings: Settings) -> Iterator[Fault]:
    names = [group.name for group in settings.instance_groups]
    for field, name in (("head_group", settings.ray.head_group), ("worker_group", settings.ray.worker_group)):
        if name not in names:
            yield Fault(
                field=f"ray.{field}",
                value=name,
                rule="is not the name of an instance group",
                remedy=f"Use one of: {_listing(names)}.",
            )
        elif settings.group(name).instance_count < 1:
            yield Fault(
                field=f"ray.{field}",
                value=name,
                rule="this instance group has no nodes",
                remedy=f"Give {name} an instance_count of at least 1, or name another group.",
            )


def _ray_groups_fit_their_part(settings: Settings) -> Iterator[Fault]:
    ray = settings.ray
    if ray.head_group == ray.worker_group:
        yield Fault(
            field="ray.head_group",
            value=ray.head_group,
            rule="is the worker group too, where each worker fills a node and leaves no room for the head",
            remedy="Add an instance group for the head; it needs no GPU.",
        )
    workers = next((group for group in settings.instance_groups if group.name == ray.worker_group), None)
    if workers and not workers.type.gpus:
        yield Fault(
            field="ray.worker_group",
            value=ray.worker_group,
            rule=f"its type {workers.instance_type} has no GPU",
            remedy="Name a group of a GPU type, or change the type, as to ml.g7e.12xlarge.",
        )


def _training_plans_are_of_the_region(settings: Settings) -> Iterator[Fault]:
    for index, group in enumerate(settings.instance_groups):
        if group.training_plan_arn and group.training_plan_arn.split(":")[3] != settings.region:
            yield Fault(
                field=f"instance_groups[{index}].training_plan_arn",
                value=group.training_plan_arn,
                rule=f"the plan is not in {settings.region}",
                remedy="Give a plan of the deployment's region.",
            )


def _efa_needs_a_type_with_efa(group: InstanceGroup, path: str) -> Iterator[Fault]:
    if group.efa and not group.type.efa_interfaces:
        yield Fault(
            field=f"{path}.efa",
            value=group.efa,
            rule=f"{group.instance_type} has no EFA interface",
            remedy="Remove it, or use a larger size of the family.",
        )


def _deep_health_checks_need_accelerators(group: InstanceGroup, path: str) -> Iterator[Fault]:
    if group.deep_health_checks and not group.type.gpus:
        yield Fault(
            field=f"{path}.deep_health_checks",
            value=group.deep_health_checks,
            rule=f"HyperPod checks accelerators and {group.instance_type} has none",
            remedy="Remove it from this group.",
        )
    if group.deep_health_checks and group.taints:
        yield Fault(
            field=f"{path}.taints",
            value=_listing(taint.key for taint in group.taints),
            rule="HyperPod refuses custom taints together with deep health checks",
            remedy="Remove the taints or deep_health_checks.",
        )


def _taints_are_sound(group: InstanceGroup, path: str) -> Iterator[Fault]:
    if not group.type.gpus and any(taint.key == GPU_RESOURCE for taint in group.taints):
        yield Fault(
            field=f"{path}.taints",
            value=GPU_RESOURCE,
            rule=f"{group.instance_type} has no GPU, and system pods must find a node without this taint",
            remedy="Keep the GPU taint to groups of GPU types.",
        )
    for key, effect in _repeated((taint.key, taint.effect) for taint in group.taints):
        yield Fault(
            field=f"{path}.taints",
            value=f"{key}:{effect}",
            rule="is given twice",
            remedy="Give each key once per effect.",
        )


def _labels_are_not_reserved(group: InstanceGroup, path: str) -> Iterator[Fault]:
    for key in group.labels:
        domain = key.partition("/")[0] if "/" in key else ""
        if domain.endswith(RESERVED_LABEL_DOMAINS):
            yield Fault(
                field=f"{path}.labels",
                value=key,
                rule="Kubernetes, EKS and HyperPod set the labels of this domain themselves",
                remedy="Use a domain of your own.",
            )


def _training_plan_covers_the_group(group: InstanceGroup, path: str) -> Iterator[Fault]:
    planned = group.training_plan_instances
    if planned is not None and group.instance_count > planned:
        yield Fault(
            field=f"{path}.instance_count",
            value=group.instance_count,
            rule=f"the training plan reserves {planned}",
            remedy="Lower the count, or put the rest into a group of its own.",
        )
    if planned is not None and group.training_plan_arn is None:
        yield Fault(
            field=f"{path}.training_plan_instances",
            value=planned,
            rule="has no meaning without training_plan_arn",
            remedy="Give the plan's ARN or remove it.",
        )


def _training_plan_is_not_spot(group: InstanceGroup, path: str) -> Iterator[Fault]:
    if group.training_plan_arn and group.is_spot:
        yield Fault(
            field=f"{path}.capacity",
            value=group.capacity,
            rule="a training plan is reserved capacity, not spot",
            remedy='Remove training_plan_arn, or say "on-demand".',
        )


def _is_private(network: IPv4Network) -> bool:
    return any(network.subnet_of(private) for private in PRIVATE_NETWORKS)


def _repeated[T](values: Iterable[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]


def _listing(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


RULES: tuple[Rule, ...] = (
    _region_is_supported,
    _zones_lie_in_the_region,
    _zones_differ,
    _hyperpod_zone_is_a_control_plane_zone,
    _vpc_range_is_private,
    _subnets_fit,
    _kubernetes_version_is_known,
    _public_access_is_limited,
    _principals_differ,
    _log_retention_is_offered,
    _lustre_size_is_offered,
    _staged_folders_differ,
    _hub_token_lies_in_the_region,
    _grafana_is_offered,
    _group_names_differ,
    _pods_fit_on_the_nodes,
    _ray_groups_exist,
    _ray_groups_fit_their_part,
    _training_plans_are_of_the_region,
)
GROUP_RULES: tuple[GroupRule, ...] = (
    _efa_needs_a_type_with_efa,
    _deep_health_checks_need_accelerators,
    _taints_are_sound,
    _labels_are_not_reserved,
    _training_plan_covers_the_group,
    _training_plan_is_not_spot,
)
