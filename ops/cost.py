"""What a deployment costs while it exists, and what one run of it costs, by component.

Left out is what depends on use: data through the NAT gateway, metrics and log ingestion, S3, requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import boto3
import typer
from rich.console import Console
from rich.table import Column, Table

from ops import prices
from ops.output import (
    DEFAULT,
    EnvironmentOption,
    JsonOption,
    OperationError,
    emit,
    failures_as_one_line,
    settings_of,
)
from ops.prices import InstancePrices, PriceError
from stacks.settings import InstanceGroup, Settings

HOURS_PER_MONTH = 730.0
INTERFACE_ENDPOINTS = 12
"""How many stacks/interface_endpoints.py makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One component."""

    component: str
    usd_per_hour: float
    basis: str
    """How the figure comes about, such as `3 x $8.28608`."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All components of a deployment and what they add up to."""

    instances: tuple[CostLine, ...]
    """Gone when the instance groups are scaled to zero."""
    services: tuple[CostLine, ...]
    """Paid as long as the deployment exists."""
    run_hours: float
    ceiling_usd_per_hour: float | None

    @property
    def usd_per_hour(self) -> float:
        return self.idle_usd_per_hour + sum(line.usd_per_hour for line in self.instances)

    @property
    def idle_usd_per_hour(self) -> float:
        return sum(line.usd_per_hour for line in self.services)

    @property
    def usd_per_run(self) -> float:
        return self.usd_per_hour * self.run_hours

    @property
    def is_within_ceiling(self) -> bool:
        return self.ceiling_usd_per_hour is None or self.usd_per_hour <= self.ceiling_usd_per_hour

    def as_json(self) -> dict[str, object]:
        return {
            "instances": self.instances,
            "services": self.services,
            "usd_per_hour": round(self.usd_per_hour, 4),
            "idle_usd_per_hour": round(self.idle_usd_per_hour, 4),
            "run_hours": self.run_hours,
            "usd_per_run": round(self.usd_per_run, 2),
            "ceiling_usd_per_hour": self.ceiling_usd_per_hour,
            "is_within_ceiling": self.is_within_ceiling,
        }


def estimate(
    settings: Settings, *, instance_prices: InstancePrices, run_hours: float | None = None
) -> Estimate:
    """The cost of an environment. Without `run_hours` a run is taken to need its whole deadline."""
    return Estimate(
        instances=tuple(_instance_line(group, instance_prices) for group in settings.instance_groups),
        services=tuple(_service_lines(settings)),
        run_hours=settings.job.deadline_hours if run_hours is None else run_hours,
        ceiling_usd_per_hour=settings.cost_ceiling_usd_per_hour,
    )


def _instance_line(group: InstanceGroup, instance_prices: InstancePrices) -> CostLine:
    usd = instance_prices.usd_per_hour[group.instance_type]
    basis = f"{group.instance_count} x ${usd:.5g} ({group.instance_type})"
    total = group.instance_count * usd
    if group.training_plan_arn is not None:
        fee = instance_prices.plan_usd_per_hour.get(group.training_plan_arn)
        total = fee or 0.0
        basis = f"{basis}, {'paid beforehand: see --refresh' if fee is None else 'fee of the training plan'}"
    elif group.is_spot:
        basis = f"{basis}, at most: spot is billed below on-demand"
    return CostLine(
        component=f"instance group {group.name}",
        usd_per_hour=total,
        basis=basis,
        source=instance_prices.source,
    )


def _service_lines(settings: Settings) -> Iterator[CostLine]:
    storage = settings.storage
    speed = storage.throughput_mbps_per_tib
    monthly_gib = prices.LUSTRE_USD_PER_GIB_MONTH[speed]
    volumes_gib = sum(group.instance_count * group.ebs_volume_gib for group in settings.instance_groups)
    yield _line(
        "FSx for Lustre",
        storage.capacity_gib * monthly_gib / HOURS_PER_MONTH,
        f"{storage.capacity_gib} GiB x ${monthly_gib} a month at {speed} MB/s per TiB",
    )
    yield _line(
        "EBS volumes of the nodes",
        volumes_gib * prices.EBS_USD_PER_GIB_MONTH / HOURS_PER_MONTH,
        f"{volumes_gib} GiB x ${prices.EBS_USD_PER_GIB_MONTH} a month",
    )
    yield _line("EKS control plane", prices.EKS_USD_PER_HOUR, "1 cluster")
    yield _line("NAT gateway", prices.NAT_GATEWAY_USD_PER_HOUR, "1 gateway, without its traffic")
    if settings.network.interface_endpoints:
        each = prices.INTERFACE_ENDPOINT_USD_PER_HOUR
        usd = INTERFACE_ENDPOINTS * each
        yield _line("interface endpoints", usd, f"{INTERFACE_ENDPOINTS} x ${each}, without their traffic")
    if settings.observability.wants_grafana:
        monthly = prices.GRAFANA_EDITOR_USD_PER_MONTH
        yield _line("Managed Grafana", monthly / HOURS_PER_MONTH, f"1 editor x ${monthly} a month")


def _line(component: str, usd_per_hour: float, basis: str) -> CostLine:
    return CostLine(
        component=component, usd_per_hour=usd_per_hour, basis=basis, source=prices.SHIPPED_SERVICES
    )


def cost(
    environment: EnvironmentOption = DEFAULT,
    hours: Annotated[
        float | None, typer.Option(min=0, help="Length of a run; its deadline when left out.")
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the Pricing API, not the table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Estimate dollars per hour and per run; exit 1 above the ceiling in the settings.

    Example: python -m ops cost --hours 30
    """
    with failures_as_one_line():
        settings = settings_of(environment)
        result = estimate(settings, instance_prices=_prices(settings, refresh=refresh), run_hours=hours)
    emit(result.as_json(), as_json=as_json, show=lambda console: _show(result, console))
    if not result.is_within_ceiling:
        raise typer.Exit(1)


def _prices(settings: Settings, *, refresh: bool) -> InstancePrices:
    if not refresh:
        return prices.shipped_prices()
    try:
        pricing = boto3.client("pricing", region_name=prices.PRICING_REGION)
        sagemaker = boto3.client("sagemaker", region_name=settings.region)
        return prices.fetched_prices(settings, pricing=pricing, sagemaker=sagemaker)
    except PriceError as error:
        raise OperationError(str(error)) from error


def _show(result: Estimate, console: Console) -> None:
    lines = (*result.instances, *result.services)
    table = Table("component", Column("$ per hour", justify="right"), "basis", box=None)
    for line in lines:
        table.add_row(line.component, f"{line.usd_per_hour:.2f}", line.basis)
    console.print(table)
    for source in dict.fromkeys(line.source for line in lines):
        console.print(f"prices: {source}", highlight=False)
    console.print(
        f"estimate: ${result.usd_per_hour:.2f} per hour with all nodes up, "
        f"${result.idle_usd_per_hour:.2f} with none; ${result.usd_per_run:,.0f} for a run of "
        f"{result.run_hours:g} hours",
        highlight=False,
    )
    if not result.is_within_ceiling:
        console.print(f"[bold red]above the ceiling[/] of ${result.ceiling_usd_per_hour:.2f} per hour")
