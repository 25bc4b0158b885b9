"""What a real Ray serves to Prometheus: the job's metrics under the names and labels that the panels use."""

import re
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
import ray
from ray.util.placement_group import placement_group

from stacks.dashboards.metrics import RAY, job_metrics
from training.telemetry import Telemetry, table

NOT_ON_A_LAPTOP = {
    "ray_node_gpus_utilization",  # without GPUs
    "ray_node_gram_used",
    "ray_node_manager_unexpected_worker_failure_total",  # until a worker dies
}
PATIENCE_SECONDS = 90


@ray.remote(num_cpus=0)
class Trainer:
    """A process of the cluster that logs one step."""

    def __init__(self) -> None:
        self._telemetry = Telemetry(run_id="maze", evaluation_mazes=64)
        self._telemetry.started()

    def step(self) -> None:
        keys = {pattern for metric in table() if not metric.label for pattern in metric.sources[:1]}
        logs = {key.replace("*", "8"): 0.5 for key in keys}
        self._telemetry.logged(logs | {"timing/generate": 3.0, "environment/stop_reason/turn_limit": 0.7})
        self._telemetry.saved()


@pytest.fixture(scope="module")
def exposition() -> Iterator[str]:
    """Everything that the node's agent serves once a step was logged."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            configure_logging=False,
            _metrics_export_port=port,
            _temp_dir=folder,
            _system_config={"metrics_report_interval_ms": 1000},
        )
        try:
            ray.get(placement_group([{"CPU": 1}]).ready())
            trainer = Trainer.remote()
            ray.get(trainer.step.remote())
            yield scraped(port)
        finally:
            ray.shutdown()


def scraped(port: int) -> str:
    """The first answer that holds every expected name, or the last one before patience ends."""
    wanted = (job_metrics().metrics | RAY.metrics) - NOT_ON_A_LAPTOP
    text, deadline = "", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and not wanted <= names_in(text):
        time.sleep(1)
        with (
            suppress(OSError),  # the agent starts after the node
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            text = response.read().decode()
    return text


def names_in(text: str) -> set[str]:
    return set(re.findall(r"^(\w+)\{", text, re.MULTILINE))


def test_every_metric_of_the_table_arrives_under_the_name_that_panels_use(exposition: str) -> None:
    assert job_metrics().metrics - names_in(exposition) == set()


def test_rays_own_metrics_have_the_names_that_panels_use(exposition: str) -> None:
    assert RAY.metrics - names_in(exposition) <= NOT_ON_A_LAPTOP


def test_series_carry_the_run_and_the_bounded_label(exposition: str) -> None:
    assert re.search(r'^ray_rl_phase_seconds\{.*phase="generate".*run_id="maze".*\} 3\.0', exposition, re.M)
    assert re.search(r'^ray_rl_stop_reason_ratio\{.*reason="turn_limit".*\} 0\.7', exposition, re.M)


def test_labels_that_legends_name_exist(exposition: str) -> None:
    for name, label in {
        "ray_tasks": "State",
        "ray_actors": "State",
        "ray_object_store_memory": "Location",
    }.items():
        assert re.search(rf"^{name}\{{.*\b{label}=", exposition, re.M), name
