"""Stack: the operator for Ray and the Ray workload itself."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from k8s.names import INSTANCE_GROUP_LABEL, STAGING
from k8s.render import manifests
from stacks.cluster import ClusterStack
from stacks.kuberay_operator import KubeRayOperator
from stacks.settings import InstanceGroup, Settings
from stacks.staging_identity import StagingIdentity
from stacks.storage import StorageStack
from stacks.workload import ray_workload


class RayStack(Stack):
    """KubeRay, then the charts of k8s/, each applied after the one before and deleted before it.

    So the operator is there when Ray objects are made and still there when they go: their finalizers need it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        kubernetes: ClusterStack,
        storage: StorageStack,
        image: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        workload = ray_workload(
            settings,
            image=image,
            file_system_id=storage.file_system.file_system_id,
            dns_name=storage.file_system.dns_name,
            mount_name=storage.file_system.mount_name,
        )
        before: Construct = KubeRayOperator(
            self,
            "KubeRay",
            cluster=kubernetes.cluster,
            installer=kubernetes.chart_installer,
            **placement(settings.head_group),
        )
        charts = {name: objects for name, objects in manifests(workload).items() if objects}
        for name, objects in charts.items():
            manifest = eks.KubernetesManifest(
                self,
                f"Chart-{name}",
                cluster=kubernetes.cluster,
                manifest=objects,
                # `create` would fail on what a broken attempt left; `apply` goes on from there.
                overwrite=True,
            )
            manifest.node.add_dependency(before)
            before = manifest
        if settings.staging.artifacts:
            identity = StagingIdentity(
                self,
                "StagingIdentity",
                cluster=kubernetes.cluster,
                namespace=settings.ray.namespace,
                staging=settings.staging,
            )
            # A pod that starts before its identity is known gets no credentials for all its life.
            self.node.find_child(f"Chart-{STAGING}").node.add_dependency(identity)


def placement(group: InstanceGroup) -> dict[str, Any]:
    """Puts a pod on the nodes of one group, whatever taints they carry."""
    return {
        "node_selector": {INSTANCE_GROUP_LABEL: group.name},
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect.value}
            for taint in group.taints
        ],
    }
