"""Dashboards and alerts as documents; tests/prometheus judges their expressions by Prometheus itself."""

import json
from collections import Counter

import pytest

from stacks.dashboards.alerts import Alert, FileSystemAlert, alerts
from stacks.dashboards.boards import boards, wilson
from stacks.dashboards.content import PLACEHOLDER, grafana_content, usd_per_hour
from stacks.dashboards.metrics import job_metrics, metrics_of, unknown_metrics
from stacks.dashboards.panels import Board, Plot
from stacks.settings import load_settings

BOARDS = boards(usd_per_hour=29.5)
ALERTS = alerts(budget_usd=2000, usd_per_hour=29.5)
EXPRESSIONS = [
    *(
        (f"{board.uid}: {plot.title}: {legend}", expression)
        for board in BOARDS
        for plot in board.plots()
        if isinstance(plot, Plot)
        for legend, expression in plot.queries.items()
    ),
    *((alert.uid, alert.expression) for alert in ALERTS),
]


@pytest.mark.parametrize(
    ("where", "expression"), EXPRESSIONS, ids=[str(index) for index in range(len(EXPRESSIONS))]
)
def test_expression_names_only_metrics_that_somebody_exports(where: str, expression: str) -> None:
    assert unknown_metrics(expression) == set(), where
    assert metrics_of(expression), where


def test_mistyped_metric_is_found() -> None:
    assert unknown_metrics('sum by (State) (ray_taks) / rate(ray_tasks{State="x"}[5m])') == {"ray_taks"}


def test_everything_that_the_job_exports_is_shown_or_watched() -> None:
    shown = set().union(*(metrics_of(expression) for _, expression in EXPRESSIONS))
    assert job_metrics().metrics - shown == {"ray_rl_step", "ray_rl_epoch"}  # the first fills the run's menu


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_document_is_complete_and_the_same_every_time(board: Board) -> None:
    document = board.to_json()
    assert document == board.to_json()
    panels = [panel for panel in document["panels"] if panel["type"] != "row"]
    assert len(panels) == len(list(board.plots()))
    assert [name for name, count in Counter(panel["id"] for panel in panels).items() if count > 1] == []
    for panel in panels:
        assert panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert references == sorted(set(references))
        assert panel["datasource"]["uid"] in {"rl-prometheus", "rl-cloudwatch"}


def test_uids_are_unique() -> None:
    uids = [board.uid for board in BOARDS] + [alert.uid for alert in ALERTS]
    assert len(set(uids)) == len(uids)


FILE_SYSTEM_ALERT = FileSystemAlert(capacity_gib=2400)


@pytest.mark.parametrize("alert", [*ALERTS, FILE_SYSTEM_ALERT], ids=lambda alert: alert.uid)
def test_alert_says_what_to_do_and_is_quiet_without_data(alert: Alert | FileSystemAlert) -> None:
    rule = alert.rule()
    assert rule["annotations"]["description"].endswith(".")
    assert rule["noDataState"] == "OK"
    assert rule["condition"] == rule["data"][-1]["refId"]
    for step in rule["data"]:
        assert step["model"]["refId"] == step["refId"]


def test_file_system_alert_holds_below_fifteen_percent_of_the_capacity() -> None:
    query, reduction, threshold = (step["model"] for step in FILE_SYSTEM_ALERT.rule()["data"])
    assert query["metricName"] == "FreeDataStorageCapacity"
    assert (reduction["expression"], threshold["expression"]) == ("A", "B")
    (condition,) = threshold["conditions"]
    assert condition["evaluator"] == {"type": "lt", "params": [360 * 1024**3]}


def test_interval_is_wilsons() -> None:
    """28 of 64 solved: 32.3 % to 55.9 %, as training.statistics has it."""
    share, mazes = "ray_rl_evaluation_solved_ratio", "ray_rl_evaluation_mazes"
    bounds = []
    for bound in "-+":
        expression = wilson(bound).replace('{run_id="$run"}', "").replace("sqrt", "math_sqrt")
        expression = expression.replace(share, "0.4375").replace(mazes, "64")
        bounds.append(eval(expression, {"math_sqrt": lambda value: value**0.5}))  # noqa: S307
    assert bounds == pytest.approx([0.3229, 0.5592], abs=1e-3)


def test_cost_follows_the_environments_instances() -> None:
    assert usd_per_hour(load_settings()) == pytest.approx(3 * 8.28608 + 4.608)
    assert usd_per_hour(load_settings("small")) < usd_per_hour(load_settings())


def test_content_is_small_enough_and_asks_for_known_values_only() -> None:
    text = json.dumps(grafana_content(load_settings()))
    assert len(text) < 200_000
    asked = {"FILE_SYSTEM_ID", "PROMETHEUS_ENDPOINT", "REGION", "TOPIC_ARN"}
    assert set(PLACEHOLDER.findall(text)) == asked
