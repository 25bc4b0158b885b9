"""When to wake somebody: alert rules in Grafana's form, each with what to do about it."""

import string
from dataclasses import dataclass
from typing import Any

from stacks.dashboards.panels import CLOUDWATCH, FILE_SYSTEM, PROMETHEUS

FOLDER = "hyperpod-rl"
GROUP = "rl-training"
EVALUATION_SECONDS = 60
_RUNNING = "time() - ray_rl_step_timestamp_seconds < 86400"
"""Only runs that logged a step within a day: a finished run must not alarm for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition in PromQL that holds while there is any series; labels of the series tell where."""

    uid: str
    title: str
    expression: str
    for_minutes: int
    severity: str
    remedy: str

    def rule(self) -> dict[str, Any]:
        """Grafana's rule: alarming when any series is left."""
        query = {
            "datasourceUid": PROMETHEUS.uid,
            "relativeTimeRange": {"from": 600, "to": 0},
            "model": {"expr": self.expression, "instant": True},
        }
        # The comparison is in the expression: every series that it leaves is an alarm, whatever its value.
        condition = {"type": "math", "expression": "is_number($A)"}
        return _rule(self, query, [condition])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemAlert:
    """The shared file system has less free space than a share of its capacity. FSx tells CloudWatch only."""

    capacity_gib: int
    free_share: float = 0.15
    uid: str = "rl-file-system-full"
    title: str = "The shared file system is more than 85 % full"
    for_minutes: int = 15
    severity: str = "warning"
    remedy: str = (
        "Delete old runs, keep fewer checkpoints, or raise storage.capacity_gib: FSx grows in place."
    )

    def rule(self) -> dict[str, Any]:
        """Grafana's rule: the sum over the file servers, its last value, below the threshold."""
        query = {
            "datasourceUid": CLOUDWATCH.uid,
            "relativeTimeRange": {"from": 1800, "to": 0},
            "model": {
                "namespace": "AWS/FSx",
                "metricName": "FreeDataStorageCapacity",
                "dimensions": {"FileSystemId": [FILE_SYSTEM]},
                "statistic": "Sum",
                "period": "60",
                "region": "default",
                "matchExact": True,
                "queryMode": "Metrics",
                "metricQueryType": 0,
                "metricEditorMode": 0,
            },
        }
        reduction = {"type": "reduce", "expression": "A", "reducer": "last"}
        below = {"type": "lt", "params": [self.free_share * self.capacity_gib * 1024**3]}
        threshold = {"type": "threshold", "expression": "B", "conditions": [{"evaluator": below}]}
        return _rule(self, query, [reduction, threshold])


def _rule(
    alert: Alert | FileSystemAlert, query: dict[str, Any], expressions: list[dict[str, Any]]
) -> dict[str, Any]:
    """A query and what is made of it step by step, lettered; the last step decides."""
    steps = [query, *({"datasourceUid": "__expr__", "model": model} for model in expressions)]
    data = [
        step | {"refId": letter, "model": step["model"] | {"refId": letter}}
        for letter, step in zip(string.ascii_uppercase, steps, strict=False)
    ]
    return {
        "uid": alert.uid,
        "title": alert.title,
        "ruleGroup": GROUP,
        "folderUID": FOLDER,
        "condition": data[-1]["refId"],
        "data": data,
        "for": f"{alert.for_minutes}m",
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.title, "description": alert.remedy},
    }


def alerts(*, budget_usd: float, usd_per_hour: float) -> tuple[Alert, ...]:
    hours = "(time() - ray_rl_start_timestamp_seconds) / 3600"
    return (
        Alert(
            uid="rl-no-step",
            title="No training step for 45 minutes",
            expression=f"time() - ray_rl_step_timestamp_seconds > 2700 and {_RUNNING}",
            for_minutes=5,
            severity="critical",
            remedy="Read the job's log: a hung collective, a lost node, or an evaluation that takes long.",
        ),
        Alert(
            uid="rl-solve-rate-falling",
            title="The solve rate fell by 10 points below its best",
            expression=(
                "max_over_time(ray_rl_evaluation_solved_ratio[12h]) - ray_rl_evaluation_solved_ratio > 0.1 "
                f"and on (run_id) {_RUNNING}"
            ),
            for_minutes=60,
            severity="warning",
            remedy="Compare entropy, KL and clipped tokens before the fall; resume from the best checkpoint.",
        ),
        Alert(
            uid="rl-not-a-number",
            title="Training logs values that are no numbers",
            expression="ray_rl_not_finite > 0",
            for_minutes=0,
            severity="critical",
            remedy="Stop the run: the weights may be lost. Resume from a checkpoint with a lower rate.",
        ),
        Alert(
            uid="rl-checkpoint-stale",
            title="No checkpoint for three hours",
            expression=f"time() - ray_rl_checkpoint_timestamp_seconds > 10800 and on (run_id) {_RUNNING}",
            for_minutes=5,
            severity="warning",
            remedy="A lost node would cost hours: look for errors while saving and for a full file system.",
        ),
        Alert(
            uid="rl-gpu-idle",
            title="A GPU is idle while a run is on",
            expression=(
                "max_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 5 and on () "
                f"(count(ray_rl_step_timestamp_seconds and {_RUNNING}) > 0)"
            ),
            for_minutes=15,
            severity="warning",
            remedy="A worker is gone, or the run ended and its cluster did not: python -m ops status.",
        ),
        Alert(
            uid="rl-node-unhealthy",
            title="A GPU reports a fault",
            # The metric keeps its last value for ever, so that only a change is news.
            expression="changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0",
            for_minutes=0,
            severity="critical",
            remedy="HyperPod replaces the node in 20 to 30 minutes; the job resumes by itself.",
        ),
        Alert(
            uid="rl-over-budget",
            title=f"A run has cost more than {budget_usd:.0f} $",
            expression=f"{hours} * {usd_per_hour:.2f} > {budget_usd:.2f} and on (run_id) {_RUNNING}",
            for_minutes=5,
            severity="warning",
            remedy="Decide: is another point worth it? Stop the job, or raise the budget in cdk.json.",
        ),
    )
