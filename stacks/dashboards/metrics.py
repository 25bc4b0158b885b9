"""Every metric that panels and alerts may name: the job's own table, and those that others export."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

JOB_TABLE = Path(__file__).parents[2] / "training" / "metrics.yaml"
RAY_PREFIX = "ray_"
"""Ray's agent puts it before the names of the job's metrics."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_NOT_METRICS = {
    *(
        "sum",
        "avg",
        "max",
        "min",
        "count",
        "topk",
        "rate",
        "increase",
        "time",
        "abs",
        "sqrt",
        "vector",
        "delta",
    ),
    *(
        "clamp_max",
        "clamp_min",
        "max_over_time",
        "min_over_time",
        "avg_over_time",
        "absent",
        "scalar",
        "changes",
    ),
    *(
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "and",
        "or",
        "unless",
        "bool",
        "offset",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where metrics come from, and how their names are known."""

    name: str
    read_in: str
    metrics: frozenset[str]


def job_metrics() -> Source:
    rows = yaml.safe_load(JOB_TABLE.read_text(encoding="utf-8"))
    return Source(
        name="job",
        read_in="training/metrics.yaml",
        metrics=frozenset(f"{RAY_PREFIX}{row['name']}" for row in rows),
    )


RAY = Source(
    name="Ray",
    read_in="Ray 2.57.0: reporter_agent.py and the panels that it ships (ray/dashboard/modules)",
    metrics=frozenset(
        {
            "ray_tasks",
            "ray_actors",
            "ray_placement_groups",
            "ray_object_store_memory",
            "ray_resources",
            "ray_node_cpu_count",
            "ray_node_cpu_utilization",
            "ray_node_mem_used",
            "ray_node_mem_total",
            "ray_node_disk_usage",
            "ray_node_disk_free",
            "ray_node_network_receive_speed",
            "ray_node_network_send_speed",
            "ray_node_gpus_utilization",
            "ray_node_gram_used",
            "ray_node_manager_unexpected_worker_failure_total",
        }
    ),
)
DCGM = Source(
    name="DCGM exporter",
    read_in="NVIDIA DCGM exporter, default counters; the observability add-on runs it on GPU nodes",
    metrics=frozenset(
        {
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_FB_USED",
            "DCGM_FI_DEV_FB_FREE",
            "DCGM_FI_DEV_POWER_USAGE",
            "DCGM_FI_DEV_GPU_TEMP",
            "DCGM_FI_DEV_XID_ERRORS",
        }
    ),
)


def sources() -> tuple[Source, ...]:
    return (job_metrics(), RAY, DCGM)


def metrics_of(expression: str) -> set[str]:
    """The metric names in a PromQL expression: what is neither function, keyword, label nor string."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\$\w+', " ", expression)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    return set(_NAME.findall(bare)) - _NOT_METRICS


def unknown_metrics(expression: str) -> set[str]:
    """Names that no source exports: a panel with one of them stays empty for ever."""
    return metrics_of(expression) - frozenset().union(*(source.metrics for source in sources()))
