"""Every choice of the settings reaches the Kubernetes charts."""

import json
from typing import Any

import pytest

from k8s.props import Active, DashboardLinks, RayWorkload, Taint
from stacks.settings import CDK_JSON, parse_settings
from stacks.workload import ray_workload


def workload_of(**ray: Any) -> RayWorkload:
    environment = json.loads(CDK_JSON.read_text())["context"]["environments"]["walkthrough"]
    environment["ray"] |= ray
    environment["instance_groups"][0] |= {
        "threads_per_core": 1,
        "efa": False,
        "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
    }
    return ray_workload(
        parse_settings(environment), image="i", file_system_id="f", dns_name="d", mount_name="m"
    )


def test_an_instance_group_reaches_the_charts_as_the_scheduler_sees_it() -> None:
    """One thread a core halves the CPUs, and a setting can forbid EFA."""
    workers = workload_of().workers
    assert (workers.vcpus, workers.gpus, workers.efa_interfaces, workers.count) == (24, 2, 0, 3)
    assert workers.taints == (Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),)


def test_the_deadline_is_given_in_seconds() -> None:
    assert workload_of().run.deadline_seconds == 48 * 3600


@pytest.mark.parametrize(("setting", "active"), [("job", Active.JOB), ("session", Active.SESSION)])
def test_the_active_workload_is_the_settings(setting: str, active: Active) -> None:
    assert workload_of(active=setting).active is active


def test_queue_and_dashboard_are_off_unless_given() -> None:
    workload = workload_of()
    assert (workload.queue, workload.dashboards) == (None, None)


def test_queue_and_dashboard_links_reach_the_charts() -> None:
    links = {"grafana_url": "https://grafana.example", "prometheus_url": "https://prometheus.example"}
    workload = workload_of(queue="rl-queue", dashboard=links)
    assert workload.queue == "rl-queue"
    assert workload.dashboards == DashboardLinks(**links)
