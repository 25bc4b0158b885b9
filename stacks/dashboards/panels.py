"""Dashboards in few words: rows of plots, made into Grafana's JSON by its own SDK."""

import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import cloudwatch, prometheus, timeseries
from grafana_foundation_sdk.builders import dashboard as sdk
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

PROMETHEUS = DataSourceRef(type_val="prometheus", uid="rl-prometheus")
CLOUDWATCH = DataSourceRef(type_val="cloudwatch", uid="rl-cloudwatch")
FILE_SYSTEM = "@@FILE_SYSTEM_ID@@"
"""Filled in at deploy time."""
HEIGHT, WIDTH = 8, 8
"""Grid units; a row of the screen has 24."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over time, from Prometheus."""

    title: str
    queries: Mapping[str, str]
    """Legend to expression. `{{label}}` in a legend takes the label's value."""
    unit: str = "short"
    about: str = ""
    minimum: float | None = None
    maximum: float | None = None

    def panel(self) -> timeseries.Panel:
        panel = _panel(self.title, about=self.about, unit=self.unit).datasource(PROMETHEUS)
        if self.minimum is not None:
            panel.min(self.minimum)
        if self.maximum is not None:
            panel.max(self.maximum)
        for reference, (legend, expression) in zip(
            string.ascii_uppercase, self.queries.items(), strict=False
        ):
            panel.with_target(prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(reference))
        return panel


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlot:
    """Lines over time that an AWS service reports to CloudWatch."""

    title: str
    namespace: str
    metrics: Mapping[str, str]
    """Metric to its statistic."""
    dimensions: Mapping[str, str]
    unit: str = "short"
    about: str = ""

    def panel(self) -> timeseries.Panel:
        panel = _panel(self.title, about=self.about, unit=self.unit).datasource(CLOUDWATCH)
        for reference, (metric, statistic) in zip(string.ascii_uppercase, self.metrics.items(), strict=False):
            panel.with_target(
                cloudwatch.CloudWatchMetricsQuery()
                .namespace(self.namespace)
                .metric_name(metric)
                .statistic(statistic)
                .dimensions({name: [value] for name, value in self.dimensions.items()})
                .region("default")
                .period("60")
                .match_exact(True)
                .label(metric)
                .ref_id(reference)
            )
        return panel


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard."""

    uid: str
    title: str
    rows: Mapping[str, tuple[Plot | ServicePlot, ...]]

    def plots(self) -> Iterator[Plot | ServicePlot]:
        for plots in self.rows.values():
            yield from plots

    def to_json(self) -> dict[str, Any]:
        """Grafana's document; the same board always gives the same one."""
        board = (
            sdk.Dashboard(self.title)
            .uid(self.uid)
            .tags(["hyperpod-rl"])
            .refresh("30s")
            .time("now-6h", "now")
            .timezone("utc")
            .with_variable(_run_variable())
        )
        number = 0
        for title, plots in self.rows.items():
            board.with_row(sdk.Row(title))
            for plot in plots:
                number += 1
                board.with_panel(plot.panel().id(number))
        document: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(board.build()))
        return document


def _panel(title: str, *, about: str, unit: str) -> timeseries.Panel:
    return timeseries.Panel().title(title).description(about).unit(unit).height(HEIGHT).span(WIDTH)


def _run_variable() -> sdk.QueryVariable:
    return (
        sdk.QueryVariable("run")
        .label("Run")
        .query("label_values(ray_rl_step, run_id)")
        .datasource(PROMETHEUS)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
