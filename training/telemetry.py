"""The run's numbers as Ray metrics, so that Prometheus and Grafana see reward and solve rate beside the GPUs.

SkyRL's own trackers end in a log or a service; nothing of them reaches Prometheus. `metrics.yaml` is the one
table of names, units, labels and sources. Labels come from closed lists: the number of series is known.
"""

import fnmatch
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray.util.metrics import Gauge as RayGauge

TABLE = Path(__file__).parent / "metrics.yaml"
RUN_LABEL = "run_id"


class Metric(BaseModel):
    """One row of the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^rl_[a-z_]+$")
    unit: str
    help: str
    sources: tuple[str, ...] = Field(alias="from", min_length=1)
    label: str | None = None
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _labels_are_bounded(self) -> Self:
        if (self.label is None) != (not self.values):
            raise ValueError(f"{self.name}: a label needs its values, and values need their label")
        return self

    def readings(self, logs: Mapping[str, float]) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of every series that the logged values fill."""
        for pattern in self.sources:
            keys = fnmatch.filter(logs, pattern)
            if self.label:
                known = {pattern.replace("*", value): value for value in self.values}
                yield from (({self.label: known[key]}, logs[key]) for key in keys if key in known)
            elif keys:
                yield {}, logs[keys[0]]
                return


def table() -> tuple[Metric, ...]:
    """Every metric of the job."""
    return tuple(Metric.model_validate(row) for row in yaml.safe_load(TABLE.read_text()))


class Gauge(Protocol):
    """What of ray.util.metrics.Gauge is used."""

    def set(self, value: float, *, tags: dict[str, str]) -> None: ...


class Telemetry:
    """Exports what a trainer logs. A value that is no number is counted, not exported."""

    def __init__(
        self,
        *,
        run_id: str,
        evaluation_mazes: int,
        gauge: Callable[[Metric], Gauge] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        make = gauge or ray_gauge
        self._gauges = [(metric, make(metric)) for metric in table()]
        self._run_id, self._clock = run_id, clock
        self._evaluation_mazes = float(evaluation_mazes)

    def started(self) -> None:
        self._export({"clock/start": self._clock(), "eval/all/mazes": self._evaluation_mazes})

    def logged(self, logs: Mapping[str, Any]) -> None:
        """The numbers of one step, or of one evaluation."""
        numbers = {key: float(value) for key, value in logs.items() if isinstance(value, int | float)}
        finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
        own = {"clock/step": self._clock(), "health/not_finite": float(len(numbers) - len(finite))}
        self._export(finite | own)

    def saved(self) -> None:
        self._export({"clock/checkpoint": self._clock()})

    def _export(self, logs: Mapping[str, float]) -> None:
        for metric, gauge in self._gauges:
            for labels, value in metric.readings(logs):
                gauge.set(value, tags=labels | {RUN_LABEL: self._run_id})


def ray_gauge(metric: Metric) -> Gauge:
    """A gauge of this Ray process; its node's agent serves it on the metrics port."""
    labels = (RUN_LABEL, *((metric.label,) if metric.label else ()))
    gauge: Gauge = RayGauge(metric.name, description=f"{metric.help} ({metric.unit})", tag_keys=labels)
    return gauge
