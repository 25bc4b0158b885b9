"""What HyperPod expects in the cluster before its nodes come: health agent, patching, device plugins."""

from collections.abc import Sequence
from typing import Any

from constructs import Construct

from stacks.chart_installer import ChartInstaller, ChartSource, GitChart
from stacks.settings import InstanceGroup

SOURCE = ChartSource(
    repository="https://github.com/aws/sagemaker-hyperpod-cli.git",
    # 2026-06-22. Commits before 62f58db (2026-03-19) do not know g7e: no GPU and no EFA would be advertised.
    commit="011ca927123e02b35a399935bbb3ab1905fe33c7",
    path="helm_chart/HyperPodHelmChart",
)
RELEASE = "hyperpod-dependencies"
NAMESPACE = "kube-system"

HEALTH_TAINT = {
    "key": "sagemaker.amazonaws.com/node-health-status",
    "operator": "Equal",
    "value": "Unschedulable",
    "effect": "NoSchedule",
}
"""HyperPod's own, while a node is checked: the plugins must run then, or the checks find no device."""


class HyperPodDependencies(Construct):
    """AWS's dependency chart with the parts that Ray needs, its device plugins tied to our instance types.

    Destroying it leaves nodes without device plugins; HyperPod must be gone before.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        installer: ChartInstaller,
        region: str,
        instance_groups: Sequence[InstanceGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        self.release = GitChart(
            self,
            "Chart",
            installer=installer,
            source=SOURCE,
            release=RELEASE,
            namespace=NAMESPACE,
            values=dependency_values(region=region, instance_groups=instance_groups),
        )


def dependency_values(*, region: str, instance_groups: Sequence[InstanceGroup]) -> dict[str, Any]:
    """Helm values. Off is what serves other schedulers and frameworks; on is what HyperPod and Ray need.

    The EFA plugin fails in a loop on a node without EFA, so it goes only where EFA is in use.
    """
    gpu_types = sorted({group.instance_type for group in instance_groups if group.type.gpus})
    efa_types = sorted({group.instance_type for group in instance_groups if group.efa_interfaces})
    tolerations = [HEALTH_TAINT, *_own_taints(instance_groups)]
    off: dict[str, Any] = {"enabled": False}
    return {
        # Without it the agent's image region is guessed from nodes, and there are none yet.
        "global": {"region": region},
        "health-monitoring-agent": {"enabled": True, "region": region},
        "deep-health-check": {"enabled": True},
        "hyperpod-patching": {"enabled": True},
        "nvidia-device-plugin": {
            "devicePlugin": {"enabled": bool(gpu_types)},
            "affinity": _only_on(gpu_types),
            "tolerations": tolerations,
        },
        "aws-efa-k8s-device-plugin": {
            "devicePlugin": {"enabled": bool(efa_types)},
            "supportedInstanceLabels": {"values": efa_types},
            "tolerations": tolerations,
        },
        "job-auto-restart": off,
        "trainingOperators": off,
        "mpi-operator": off,
        "neuron-device-plugin": {"devicePlugin": off},
        "cert-manager": off,
        "gpu-operator": off,
        "inferenceOperators": off,
        "mlflow": off,
        "storage": off,
    }


def _only_on(instance_types: Sequence[str]) -> dict[str, Any]:
    expression = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": list(instance_types),
    }
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


def _own_taints(instance_groups: Sequence[InstanceGroup]) -> list[dict[str, str]]:
    taints = {taint for group in instance_groups for taint in group.taints}
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect.value}
        for taint in sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))
    ]
