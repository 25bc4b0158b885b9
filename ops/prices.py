"""Prices that a cost estimate multiplies: a shipped table, or the Pricing API when asked.

The shipped instance prices are those of `stacks/instance_types.csv` (EC2 on-demand, us-east-1, 2026-07-20).
The others are us-east-1 list prices noted in 2025 and to be read as estimates; `--refresh` replaces the
instance prices only.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stacks.instance_types import INSTANCE_TYPES
from stacks.settings import Settings

SHIPPED_INSTANCES = "instances by EC2 on-demand, us-east-1, 2026-07-20 (stacks/instance_types.csv)"
SHIPPED_SERVICES = "services by list price, us-east-1, noted 2025 (ops/prices.py)"
PRICING_REGION = "us-east-1"
"""The Pricing API answers for all regions from here."""

LUSTRE_USD_PER_GIB_MONTH = {125: 0.145, 250: 0.210, 500: 0.340, 1000: 0.600}
"""FSx for Lustre, PERSISTENT_2 on SSD, by MB/s per TiB."""
EBS_USD_PER_GIB_MONTH = 0.08
EKS_USD_PER_HOUR = 0.10
NAT_GATEWAY_USD_PER_HOUR = 0.045
INTERFACE_ENDPOINT_USD_PER_HOUR = 0.01
GRAFANA_EDITOR_USD_PER_MONTH = 9.0


class PriceError(Exception):
    """The Pricing API has no single price for what was asked; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePrices:
    """US dollars per hour by ml.* type, and where they come from."""

    usd_per_hour: Mapping[str, float]
    source: str
    plan_usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Upfront fee over hours of each training plan that was looked up, by ARN."""


def shipped_prices() -> InstancePrices:
    """From the table of this repository; no call to anywhere."""
    prices = {name: row.usd_per_hour for name, row in INSTANCE_TYPES.items()}
    return InstancePrices(usd_per_hour=prices, source=SHIPPED_INSTANCES)


def fetched_prices(settings: Settings, *, pricing: Any, sagemaker: Any) -> InstancePrices:
    """Today's EC2 on-demand prices of the settings' region for the types in use, and the fees of its plans.

    `pricing` and `sagemaker` are boto3 clients. Prices of ml.* types for HyperPod have no entry of their own
    that could be named here with certainty, so the EC2 price of the same type stands in. Raises PriceError.
    """
    types = sorted({group.instance_type for group in settings.instance_groups})
    prices = {name: _fetch(name, region=settings.region, pricing=pricing) for name in types}
    source = f"instances by EC2 on-demand, {settings.region}, {datetime.now(UTC):%Y-%m-%d} (Pricing API)"
    plans = {group.training_plan_arn for group in settings.instance_groups if group.training_plan_arn}
    fees = {arn: _plan_fee(arn, sagemaker) for arn in sorted(plans)}
    return InstancePrices(usd_per_hour=prices, source=source, plan_usd_per_hour=fees)


def _plan_fee(arn: str, sagemaker: Any) -> float:
    """The upfront fee, which covers all instances of the plan, spread over its hours."""
    plan = sagemaker.describe_training_plan(TrainingPlanName=arn.rsplit("/", 1)[-1])
    hours: float = plan.get("DurationHours", 0) + plan.get("DurationMinutes", 0) / 60
    if not hours or "UpfrontFee" not in plan:
        raise PriceError(f"training plan {arn} tells no fee or no duration; leave out --refresh")
    return float(plan["UpfrontFee"]) / hours


def _fetch(name: str, *, region: str, pricing: Any) -> float:
    wanted = {
        "instanceType": name.removeprefix("ml."),
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    answer = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    found = {price for product in answer["PriceList"] for price in _hourly(json.loads(product))}
    if len(found) != 1:
        raise PriceError(
            f"the Pricing API has {len(found)} on-demand prices for {name} in {region}; leave out --refresh"
        )
    return found.pop()


def _hourly(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if dimension["unit"] == "Hrs":
                yield float(dimension["pricePerUnit"]["USD"])
