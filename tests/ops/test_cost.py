"""Money: the sums, what they are made of, and the ceiling."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from ops import cost, prices
from ops.__main__ import app
from ops.cost import Estimate, estimate
from ops.prices import PriceError, fetched_prices, shipped_prices
from stacks.settings import load_settings

from .aws_stub import Answers, StubbedAws
from .test_preflight import plan, planned_groups, settings_with


def test_the_walkthrough_costs_what_its_parts_cost() -> None:
    result = estimate(load_settings(), instance_prices=shipped_prices())
    assert sum(line.usd_per_hour for line in result.instances) == pytest.approx(3 * 8.28608 + 4.608)
    lustre = next(line for line in result.services if line.component == "FSx for Lustre")
    assert lustre.usd_per_hour == pytest.approx(2400 * 0.210 / 730)
    assert result.usd_per_hour == pytest.approx(
        sum(line.usd_per_hour for line in (*result.instances, *result.services))
    )
    assert result.idle_usd_per_hour < 2


def test_a_run_costs_its_hours_and_by_default_its_deadline() -> None:
    settings = load_settings()
    assert estimate(settings, instance_prices=shipped_prices()).run_hours == settings.job.deadline_hours
    ten = estimate(settings, instance_prices=shipped_prices(), run_hours=10)
    assert ten.usd_per_run == pytest.approx(10 * ten.usd_per_hour)


def test_a_training_plan_is_paid_beforehand() -> None:
    result = estimate(settings_with(instance_groups=planned_groups()), instance_prices=shipped_prices())
    gpu, head = result.instances
    assert gpu.usd_per_hour == 0
    assert "paid beforehand" in gpu.basis
    assert head.usd_per_hour == pytest.approx(4.608)


def test_grafana_and_endpoints_cost_only_when_they_are_on() -> None:
    off = {line.component for line in estimate(load_settings(), instance_prices=shipped_prices()).services}
    network = {
        "control_plane_zone_ids": ["use2-az1", "use2-az2"],
        "hyperpod_zone_id": "use2-az1",
        "interface_endpoints": True,
    }
    settings = settings_with(observability={"grafana_authentication": "saml"}, network=network)
    on = {line.component for line in estimate(settings, instance_prices=shipped_prices()).services}
    assert on - off == {"Managed Grafana", "interface endpoints"}


@pytest.mark.parametrize(("ceiling", "code"), [(100, 0), (20, 1)])
def test_the_exit_code_tells_whether_the_ceiling_holds(
    monkeypatch: pytest.MonkeyPatch, ceiling: float, code: int
) -> None:
    monkeypatch.setattr(cost, "settings_of", lambda _: settings_with(cost_ceiling_usd_per_hour=ceiling))
    result = CliRunner().invoke(app, ["cost"])
    assert result.exit_code == code
    assert ("above the ceiling" in result.stdout) is (code == 1)


def test_machines_get_the_sums_and_the_sources() -> None:
    payload = json.loads(CliRunner().invoke(app, ["cost", "--json", "--hours", "30"]).stdout)
    assert payload["usd_per_run"] == pytest.approx(30 * payload["usd_per_hour"], abs=0.01)
    assert payload["instances"][0]["source"] == prices.SHIPPED_INSTANCES


def price_list(*usd: str) -> Mapping[str, Any]:
    def product(price: str) -> str:
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": price}}
        return json.dumps({"terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}}})

    return {"PriceList": [product(price) for price in usd]}


def test_refreshed_prices_come_from_the_pricing_api() -> None:
    aws = StubbedAws({"pricing.GetProducts": price_list("9.5000000000")}, prices.PRICING_REGION)
    fetched = fetched_prices(load_settings(), pricing=aws.client("pricing"), sagemaker=None)
    assert fetched.usd_per_hour == {"ml.g7e.12xlarge": 9.5, "ml.r5d.16xlarge": 9.5}
    assert "us-east-2" in fetched.source
    filters = {row["Field"]: row["Value"] for row in aws.calls[0][1]["Filters"]}
    assert filters["instanceType"] == "g7e.12xlarge"
    assert filters["regionCode"] == "us-east-2"


@pytest.mark.parametrize("usd", [(), ("9.5", "9.7")])
def test_no_price_or_two_prices_are_refused(usd: tuple[str, ...]) -> None:
    aws = StubbedAws({"pricing.GetProducts": price_list(*usd)}, prices.PRICING_REGION)
    with pytest.raises(PriceError, match=f"has {len(usd)} on-demand prices"):
        fetched_prices(load_settings(), pricing=aws.client("pricing"), sagemaker=None)


def planned(**answer: object) -> Estimate:
    """The estimate of a planned group whose plan is looked up."""
    plan_answer = {**plan(), "UpfrontFee": "2400.00", "DurationHours": 240, **answer}
    answers: Answers = {
        "pricing.GetProducts": price_list("9.5"),
        "sagemaker.DescribeTrainingPlan": {key: value for key, value in plan_answer.items() if value},
    }
    aws = StubbedAws(answers, prices.PRICING_REGION)
    settings = settings_with(instance_groups=planned_groups())
    fetched = fetched_prices(settings, pricing=aws.client("pricing"), sagemaker=aws.client("sagemaker"))
    return estimate(settings, instance_prices=fetched)


def test_a_looked_up_plan_costs_its_fee_over_its_hours() -> None:
    gpu, head = planned().instances
    assert gpu.usd_per_hour == pytest.approx(10)
    assert head.usd_per_hour == pytest.approx(9.5)


@pytest.mark.parametrize("missing", ["UpfrontFee", "DurationHours"])
def test_a_plan_without_fee_or_duration_is_refused(missing: str) -> None:
    with pytest.raises(PriceError, match="leave out --refresh"):
        planned(**{missing: None})


def test_unknown_environments_end_in_one_line() -> None:
    result = CliRunner().invoke(app, ["cost", "--environment", "nowhere"])
    assert result.exit_code == 1
    assert "Use one of" in result.stderr
    assert "Traceback" not in result.output
