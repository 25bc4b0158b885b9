"""The run's numbers on their way to Prometheus."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError
from skyrl.train.utils.callbacks import CallbackInput

from training.maze import StopReason
from training.telemetry import Metric, Telemetry, table
from training.telemetry_callback import TelemetryCallback

type Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass
class Recorder:
    """Gauges that remember their last value by name and labels."""

    series: dict[Series, float] = field(default_factory=dict)

    def gauge(self, metric: Metric) -> "OneGauge":
        return OneGauge(metric.name, self)

    def value(self, name: str, **labels: str) -> float | None:
        return self.series.get((name, frozenset({"run_id": "maze", **labels}.items())))


@dataclass
class OneGauge:
    name: str
    recorder: Recorder

    def set(self, value: float, *, tags: dict[str, str]) -> None:
        self.recorder.series[self.name, frozenset(tags.items())] = value


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def telemetry(recorder: Recorder) -> Telemetry:
    clock = iter(range(100, 200))
    return Telemetry(
        run_id="maze", evaluation_mazes=64, gauge=recorder.gauge, clock=lambda: float(next(clock))
    )


# A part of what SkyRL 0.4.0 logs at a step.
STEP: dict[str, Any] = {
    "reward/avg_raw_reward": 0.25,
    "reward/avg_pass_at_8": 0.5,
    "policy/policy_loss": -0.01,
    "policy/final_loss": 9.0,
    "policy/policy_entropy": 1.5,
    "environment/solved": 0.2,
    "environment/stop_reason/turn_limit": 0.7,
    "environment/stop_reason/stopped_on_target": 0.2,
    "timing/generate": 12.0,
    "timing/policy_train": 8.0,
    "timing/something_new": 1.0,
    "trainer/tokens_per_second_per_gpu": 900.0,
    "note": "text is nobody's metric",
}


def test_logged_step_becomes_series(recorder: Recorder, telemetry: Telemetry) -> None:
    telemetry.logged(STEP)
    assert recorder.value("rl_reward_mean") == 0.25
    assert recorder.value("rl_pass_at_k_ratio") == 0.5
    assert recorder.value("rl_policy_loss") == -0.01  # the first source that is there
    assert recorder.value("rl_phase_seconds", phase="generate") == 12.0
    assert recorder.value("rl_stop_reason_ratio", reason="turn_limit") == 0.7
    assert recorder.value("rl_step_timestamp_seconds") == 100.0


def test_labels_come_from_the_table_only(recorder: Recorder, telemetry: Telemetry) -> None:
    telemetry.logged(STEP | {"environment/stop_reason/invented": 0.1})
    labels = {dict(labels).get("phase") or dict(labels).get("reason") for _, labels in recorder.series}
    assert labels == {None, "generate", "policy_train", "turn_limit", "stopped_on_target"}


def test_no_number_is_counted_instead_of_exported(recorder: Recorder, telemetry: Telemetry) -> None:
    telemetry.logged(STEP)
    assert recorder.value("rl_not_finite") == 0
    telemetry.logged({"policy/policy_loss": math.nan, "policy/grad_norm": math.inf})
    assert recorder.value("rl_not_finite") == 2
    assert recorder.value("rl_policy_loss") == -0.01
    assert recorder.value("rl_gradient_norm") is None


def test_checkpoint_and_start_leave_their_time(recorder: Recorder, telemetry: Telemetry) -> None:
    telemetry.started()
    telemetry.saved()
    assert recorder.value("rl_start_timestamp_seconds") == 100.0
    assert recorder.value("rl_evaluation_mazes") == 64.0
    assert recorder.value("rl_checkpoint_timestamp_seconds") == 101.0


def test_skyrls_events_are_exported(recorder: Recorder, telemetry: Telemetry) -> None:
    callback = TelemetryCallback(telemetry)
    event = CallbackInput(global_step=7, epoch=0, total_steps=9, steps_per_epoch=9, logs=dict(STEP))
    callback.on_train_start(None, event, None)
    callback.on_log(None, event, None)
    callback.on_save(None, event, None)
    assert recorder.value("rl_step") == 7
    assert recorder.value("rl_checkpoint_timestamp_seconds") is not None
    assert event.logs == STEP


def test_names_are_unique_and_stop_reasons_are_those_of_the_mazes() -> None:
    metrics = {metric.name: metric for metric in table()}
    assert len(metrics) == len(table())
    assert set(metrics["rl_stop_reason_ratio"].values) == {reason.value for reason in StopReason}


def test_one_run_makes_a_known_number_of_series() -> None:
    assert sum(len(metric.values) or 1 for metric in table()) <= 50


@pytest.mark.parametrize("row", [{"label": "phase"}, {"values": ["a"]}])
def test_label_without_bounds_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="a label needs its values"):
        Metric.model_validate({"name": "rl_x", "unit": "x", "help": "x", "from": ["a/*"], **row})
