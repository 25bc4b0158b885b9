"""Instances: quotas, zones, training plans, money."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from ops.checks.model import Check, Context, Outcome, failed, passed, unknown, warning
from ops.cost import estimate
from ops.prices import shipped_prices
from stacks.settings import InstanceGroup

MAXIMUM_PER_CLUSTER = "Maximum number of instances allowed per SageMaker HyperPod cluster"
MAXIMUM_IN_ALL = "Total number of instances allowed across SageMaker HyperPod clusters"
USABLE_PLANS = {"Active", "Scheduled"}


def instance_quotas(context: Context) -> Iterator[Outcome]:
    """Looked up by name: the codes differ by type and are not documented. New accounts often have 0."""
    quotas = _sagemaker_quotas(context)
    for instance_type, needed in sorted(_instances(context).items()):
        name = f"{instance_type} for cluster usage"
        yield _compare(name=name, needed=needed, quota=quotas.get(name), region=context.settings.region)


def cluster_quotas(context: Context) -> Iterator[Outcome]:
    quotas, needed = _sagemaker_quotas(context), sum(_instances(context).values())
    for name in (MAXIMUM_PER_CLUSTER, MAXIMUM_IN_ALL):
        yield _compare(name=name, needed=needed, quota=quotas.get(name), region=context.settings.region)


def _instances(context: Context) -> Counter[str]:
    """On-demand instances by type: a training plan brings its own capacity."""
    counts: Counter[str] = Counter()
    for group in context.settings.instance_groups:
        if group.training_plan_arn is None:
            counts[group.instance_type] += group.instance_count
    return counts


def _compare(*, name: str, needed: int, quota: float | None, region: str) -> Outcome:
    if quota is None:
        return unknown(f'no quota named "{name}" in {region}', "Look for it in the Service Quotas console.")
    if quota < needed:
        return failed(
            f'"{name}" is {quota:g}, needed are {needed}',
            f"Ask for {needed} in Service Quotas, service SageMaker, region {region}; it takes days.",
        )
    return passed(f'"{name}" is {quota:g}, needed are {needed}')


def _sagemaker_quotas(context: Context) -> dict[str, float]:
    """By name; an applied value wins over the default."""
    quotas: dict[str, float] = {}
    for operation in ("list_aws_default_service_quotas", "list_service_quotas"):
        rows = context.aws.pages("service-quotas", operation, "Quotas", ServiceCode="sagemaker")
        quotas |= {row["QuotaName"]: row["Value"] for row in rows}
    return quotas


def zones(context: Context) -> Iterator[Outcome]:
    network = context.settings.network
    answer = context.aws.client("ec2").describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}]
    )
    known = {zone["ZoneId"]: zone["State"] for zone in answer["AvailabilityZones"]}
    wrong = [zone for zone in _zone_ids(context) if known.get(zone) != "available"]
    if wrong:
        yield failed(
            f"not available in {context.settings.region}: {', '.join(wrong)}",
            f"Use among network.*_zone_id: {', '.join(sorted(known))}.",
        )
    else:
        yield passed(f"{network.hyperpod_zone_id} and the control plane's zones are available")


def _zone_ids(context: Context) -> list[str]:
    network = context.settings.network
    return list(dict.fromkeys([*network.control_plane_zone_ids, network.hyperpod_zone_id]))


def zone_offers(context: Context) -> Iterator[Outcome]:
    """EC2's offers stand for HyperPod's. All groups share one zone, so all types must be there."""
    types = sorted({group.instance_type.removeprefix("ml.") for group in context.settings.instance_groups})
    offers = context.aws.pages(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": types}],
    )
    by_zone: dict[str, set[str]] = {}
    for offer in offers:
        by_zone.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    zone = context.settings.network.hyperpod_zone_id
    missing = sorted(set(types) - by_zone.get(zone, set()))
    if missing:
        complete = sorted(name for name, offered in by_zone.items() if offered == set(types))
        others = (
            f"Use network.hyperpod_zone_id: {' or '.join(complete)}." if complete else "Use another region."
        )
        yield failed(f"{zone} does not offer {', '.join(missing)}", others)
    else:
        yield passed(f"{zone} offers {', '.join(types)}; that does not mean capacity is free")


def training_plans(context: Context) -> Iterator[Outcome]:
    planned = [group for group in context.settings.instance_groups if group.training_plan_arn]
    if not planned:
        yield passed("no instance group uses a training plan")
    for group in planned:
        yield _judge_plan(context, group)


def _judge_plan(context: Context, group: InstanceGroup) -> Outcome:
    name = str(group.training_plan_arn).rsplit("/", 1)[-1]
    try:
        plan = context.aws.client("sagemaker").describe_training_plan(TrainingPlanName=name)
    except ClientError as error:
        return failed(
            f"training plan {name}: {error.response['Error'].get('Message')}", "Mend training_plan_arn."
        )
    faults = list(_plan_faults(context, group, plan))
    if faults:
        return failed(
            f"training plan {name}: {'; '.join(faults)}", f"Mend instance group {group.name}, or the plan."
        )
    return passed(f"training plan {name} fits instance group {group.name}")


def _plan_faults(context: Context, group: InstanceGroup, plan: dict[str, Any]) -> Iterator[str]:
    """A plan's capacity lies in one zone, of one type, between two dates."""
    if plan["Status"] not in USABLE_PLANS:
        yield f"its status is {plan['Status']}"
    yield from _plan_amount_faults(context, group, plan)
    yield from _plan_place_faults(context, group, plan)


def _plan_amount_faults(context: Context, group: InstanceGroup, plan: dict[str, Any]) -> Iterator[str]:
    if plan.get("TotalInstanceCount", group.instance_count) < group.instance_count:
        yield f"it reserves {plan['TotalInstanceCount']} instances, the group wants {group.instance_count}"
    end = plan.get("EndTime")
    if end and end < context.now + timedelta(hours=context.settings.job.deadline_hours):
        yield f"it ends on {end:%Y-%m-%d %H:%M} UTC, before a job that uses its whole deadline"


def _plan_place_faults(context: Context, group: InstanceGroup, plan: dict[str, Any]) -> Iterator[str]:
    zone = context.settings.network.hyperpod_zone_id
    for capacity in plan.get("ReservedCapacitySummaries", []):
        if capacity.get("AvailabilityZoneId", zone) != zone:
            yield f"its capacity lies in {capacity['AvailabilityZoneId']}, the nodes in {zone}"
        if capacity["InstanceType"] != group.instance_type:
            yield f"it reserves {capacity['InstanceType']}, the group wants {group.instance_type}"


def cost_ceiling(context: Context) -> Iterator[Outcome]:
    result = estimate(context.settings, instance_prices=shipped_prices())
    ceiling = context.settings.cost_ceiling_usd_per_hour
    if ceiling is None:
        yield warning(
            f"about ${result.usd_per_hour:.2f} per hour, and no ceiling is set",
            "Set cost_ceiling_usd_per_hour in cdk.json.",
        )
    elif not result.is_within_ceiling:
        yield failed(
            f"about ${result.usd_per_hour:.2f} per hour, above the ceiling of ${ceiling:.2f}",
            "Use fewer or smaller instances, or raise cost_ceiling_usd_per_hour.",
        )
    else:
        yield passed(f"about ${result.usd_per_hour:.2f} per hour, within the ceiling of ${ceiling:.2f}")


CHECKS = (
    Check(name="instance-quotas", ask=instance_quotas),
    Check(name="cluster-quotas", ask=cluster_quotas),
    Check(name="zones", ask=zones),
    Check(name="zone-offers", ask=zone_offers),
    Check(name="training-plans", ask=training_plans),
    Check(name="cost-ceiling", ask=cost_ceiling, needs_credentials=False),
)
