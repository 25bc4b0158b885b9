"""Panels and alerts judged by promtool: all of them parse, and alerts fire when they should and only then."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.dashboards.alerts import Alert, alerts
from stacks.dashboards.boards import boards
from stacks.dashboards.panels import Plot

ALERTS = {alert.uid: alert for alert in alerts(budget_usd=2000, usd_per_hour=29.5)}
HOUR = 60
"""Samples: one a minute."""


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


def rules_file(folder: Path, rules: list[dict[str, Any]]) -> Path:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "rl", "interval": "1m", "rules": rules}]}))
    return path


def test_every_expression_of_every_panel_and_alert_parses(tmp_path: Path) -> None:
    expressions = [
        (board.uid, plot.title, expression.replace("$run", "maze"))
        for board in boards(usd_per_hour=29.5)
        for plot in board.plots()
        if isinstance(plot, Plot)
        for expression in plot.queries.values()
    ]
    expressions += [("alerts", alert.title, alert.expression) for alert in ALERTS.values()]
    rules = [
        {"record": f"panel:{index}", "expr": expression} for index, (*_, expression) in enumerate(expressions)
    ]
    run = promtool("check", "rules", rules_file(tmp_path, rules))
    assert run.returncode == 0, run.stderr
    assert f"{len(rules)} rules found" in run.stdout
    for board, title, expression in expressions:
        print(f"{board:<12} {title:<48} {expression}")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Series of one situation, and the alerts that hold at a minute of it."""

    name: str
    series: dict[str, str]
    at_minute: int
    fire: set[str] = field(default_factory=set)


def stamps(*, every: int, until: int, last: int) -> str:
    """A timestamp that is renewed every so many minutes until a minute, then stands still till the last."""
    values = [str(min(minute, until) // every * every * 60) for minute in range(last + 1)]
    return " ".join(values)


def constant(value: float, *, last: int) -> str:
    return f"{value}x{last}"


RUN = '{run_id="maze"}'
HEALTHY = {
    f"ray_rl_start_timestamp_seconds{RUN}": "0x600",
    f"ray_rl_step_timestamp_seconds{RUN}": stamps(every=5, until=600, last=600),
    f"ray_rl_checkpoint_timestamp_seconds{RUN}": stamps(every=100, until=600, last=600),
    f"ray_rl_evaluation_solved_ratio{RUN}": "0.4x300 0.7x299",
    f"ray_rl_not_finite{RUN}": "0x600",
    'DCGM_FI_DEV_GPU_UTIL{Hostname="a", gpu="0"}': "90x600",
    'DCGM_FI_DEV_XID_ERRORS{Hostname="a", gpu="0"}': "0x600",
}
CASES = [
    Case(name="healthy run", series=HEALTHY, at_minute=500),
    Case(
        name="steps ended an hour ago",
        series=HEALTHY | {f"ray_rl_step_timestamp_seconds{RUN}": stamps(every=5, until=100, last=600)},
        at_minute=100 + HOUR,
        fire={"rl-no-step"},
    ),
    Case(
        name="a long step is no alarm yet",
        series=HEALTHY | {f"ray_rl_step_timestamp_seconds{RUN}": stamps(every=5, until=100, last=600)},
        at_minute=140,
    ),
    Case(
        name="no number in the last step",
        series=HEALTHY | {f"ray_rl_not_finite{RUN}": "0x100 3x499"},
        at_minute=110,
        fire={"rl-not-a-number"},
    ),
    Case(
        name="checkpoints ended four hours ago",
        series=HEALTHY
        | {f"ray_rl_checkpoint_timestamp_seconds{RUN}": stamps(every=100, until=100, last=600)},
        at_minute=100 + 4 * HOUR,
        fire={"rl-checkpoint-stale"},
    ),
    Case(
        name="solve rate fell and stayed low",
        series=HEALTHY | {f"ray_rl_evaluation_solved_ratio{RUN}": "0.7x100 0.5x499"},
        at_minute=100 + 2 * HOUR,
        fire={"rl-solve-rate-falling"},
    ),
    Case(
        name="one weak evaluation is noise",
        series=HEALTHY | {f"ray_rl_evaluation_solved_ratio{RUN}": "0.7x100 0.5x20 0.7x479"},
        at_minute=100 + 2 * HOUR,
    ),
    Case(
        name="a GPU without work beside a run",
        series=HEALTHY | {'DCGM_FI_DEV_GPU_UTIL{Hostname="b", gpu="1"}': "0x600"},
        at_minute=120,
        fire={"rl-gpu-idle"},
    ),
    Case(
        name="GPUs without work and no run at all",
        series={'DCGM_FI_DEV_GPU_UTIL{Hostname="b", gpu="1"}': "0x600"},
        at_minute=120,
    ),
    Case(
        name="a GPU fault that just came",
        series=HEALTHY | {'DCGM_FI_DEV_XID_ERRORS{Hostname="a", gpu="0"}': "0x100 79x499"},
        at_minute=105,
        fire={"rl-node-unhealthy"},
    ),
    Case(
        name="a GPU fault of yesterday, still in the metric",
        series=HEALTHY | {'DCGM_FI_DEV_XID_ERRORS{Hostname="a", gpu="0"}': "79x600"},
        at_minute=300,
    ),
    Case(
        name="spent more than the budget",
        series={
            f"ray_rl_start_timestamp_seconds{RUN}": "0x4200",
            f"ray_rl_step_timestamp_seconds{RUN}": stamps(every=5, until=4200, last=4200),
        },
        at_minute=69 * HOUR,  # 68 hours at 29.50 $ are 2006 $
        fire={"rl-over-budget"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_alerts_fire_when_they_should_and_only_then(case: Case, tmp_path: Path) -> None:
    rules = rules_file(tmp_path, [_rule(alert) for alert in ALERTS.values()])
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{case.at_minute}m",
                "alertname": uid,
                "exp_alerts": [{}] if uid in case.fire else [],
            }
            for uid in ALERTS
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": [test]}))
    run = promtool("test", "rules", path)
    fired = _fired(run.stdout + run.stderr)
    assert fired == case.fire, run.stdout + run.stderr


def test_every_alert_is_seen_firing() -> None:
    assert set().union(*(case.fire for case in CASES)) == ALERTS.keys()


def _rule(alert: Alert) -> dict[str, Any]:
    return {"alert": alert.uid, "expr": alert.expression, "for": f"{alert.for_minutes}m"}


def _fired(output: str) -> set[str]:
    """The alerts that held. promtool compares labels too, which are not expected here: a firing alert shows
    as a difference; one that should have fired and did not, as an expectation without a result."""
    fired = set()
    for block in output.split("alertname: ")[1:]:
        uid = block.split(",")[0]
        if "got:[]" not in block.replace(" ", "").replace("\n", ""):
            fired.add(uid)
    return fired
