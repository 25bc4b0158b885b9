"""The charts of one workload, and their manifests as plain data or YAML."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml
from cdk8s import App, Chart
from constructs import Construct

from k8s import names
from k8s.namespace import NamespaceChart
from k8s.props import RayWorkload
from k8s.ray import JobChart, SessionChart
from k8s.staging import StagingChart
from k8s.storage import StorageChart
from k8s.validation import refuse_faulty


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCharts:
    """One chart per lifecycle, in the order in which they are applied; deletion goes the other way."""

    namespace: NamespaceChart
    storage: StorageChart
    staging: StagingChart
    session: SessionChart
    job: JobChart

    def in_order(self) -> dict[str, Chart]:
        return {
            "namespace": self.namespace,
            "storage": self.storage,
            "staging": self.staging,
            "session": self.session,
            "job": self.job,
        }


def build_charts(workload: RayWorkload, *, scope: Construct | None = None) -> WorkloadCharts:
    """All charts of a workload, under a cdk8s App of their own unless a scope is given.

    Raises ManifestsRefused: what Kubernetes, KubeRay or the scheduler would refuse ends the synthesis.
    """
    parent = scope or App()
    charts = WorkloadCharts(
        namespace=NamespaceChart(parent, "namespace", workload=workload),
        storage=StorageChart(parent, "storage", workload=workload),
        staging=StagingChart(parent, names.STAGING, workload=workload),
        session=SessionChart(parent, "session", workload=workload),
        job=JobChart(parent, "job", workload=workload),
    )
    objects = [item for chart in charts.in_order().values() for item in chart.to_json()]
    refuse_faulty(objects, [workload.head, workload.workers])
    return charts


def manifests(workload: RayWorkload) -> dict[str, list[dict[str, Any]]]:
    """The objects of every chart by chart name, in the order in which they are applied."""
    return {name: chart.to_json() for name, chart in build_charts(workload).in_order().items()}


def to_yaml(objects: Iterable[dict[str, Any]]) -> str:
    """A multi-document YAML text; the same objects always give the same text."""
    return yaml.safe_dump_all(objects, sort_keys=True, explicit_start=True, width=100)
