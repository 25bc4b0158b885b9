"""The operator that turns RayCluster and RayJob objects into pods."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from k8s.names import KUBERAY_COMMIT, KUBERAY_VERSION, OPERATOR_NAMESPACE
from stacks.chart_installer import ChartInstaller, ChartSource, GitCrds

REPOSITORY = "https://ray-project.github.io/kuberay-helm/"
SOURCE = ChartSource(
    repository="https://github.com/ray-project/kuberay.git",
    commit=KUBERAY_COMMIT,
    path="helm-chart/kuberay-operator",
)


class KubeRayOperator(Construct):
    """KubeRay by its own Helm chart, in a namespace of its own, after its CRDs at the same version.

    Destroying it removes the operator but not the CRDs, and objects that still carry a Ray finalizer would
    hang: everything made from `ray.io` kinds depends on this construct and goes before it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        installer: ChartInstaller,
        node_selector: Mapping[str, str],
        tolerations: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        crds = GitCrds(self, "Crds", installer=installer, source=SOURCE)
        self.chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart="kuberay-operator",
            repository=REPOSITORY,
            version=KUBERAY_VERSION,
            release="kuberay-operator",
            namespace=OPERATOR_NAMESPACE,
            create_namespace=True,
            values=operator_values(node_selector=node_selector, tolerations=tolerations),
            # The deployment ends when the operator runs, and a failed upgrade goes back. A longer timeout
            # would meet the limit of the Lambda that runs Helm and leave the release "pending-upgrade".
            wait=True,
            atomic=True,
            timeout=Duration.minutes(10),
        )
        self.chart.node.add_dependency(crds)


def operator_values(
    *, node_selector: Mapping[str, str], tolerations: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Values that differ from the chart's: a fixed image, a fixed place, requests equal to limits."""
    size = {"cpu": "500m", "memory": "512Mi"}
    return {
        "image": {"tag": f"v{KUBERAY_VERSION}"},
        "nodeSelector": dict(node_selector),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "resources": {"requests": size, "limits": size},
    }
