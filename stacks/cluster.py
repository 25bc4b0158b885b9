"""Stack: the Kubernetes cluster without nodes, and who may use it."""

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from stacks import names
from stacks.addon_versions import ADDON_VERSIONS
from stacks.chart_installer import ChartInstaller
from stacks.cluster_access import ClusterAccess
from stacks.hyperpod_dependencies import HyperPodDependencies
from stacks.kubernetes_cluster import KubernetesCluster
from stacks.network import NetworkStack
from stacks.settings import Settings


class ClusterStack(Stack):
    """EKS, its early add-ons and access entries, and the charts that HyperPod expects before it comes."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        network: NetworkStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        kubernetes = KubernetesCluster(
            self,
            "Kubernetes",
            name=names.cluster_name(settings),
            version=settings.kubernetes.version,
            vpc=network.vpc,
            subnets=network.control_plane_subnets,
            security_group=network.security_group,
            public_access_cidrs=[str(cidr) for cidr in settings.kubernetes.public_access_cidrs],
            key=network.key,
            log_group_name=names.control_plane_log_group(settings),
            addon_versions=ADDON_VERSIONS[settings.kubernetes.version],
        )
        self.cluster = kubernetes.cluster
        self.chart_installer = ChartInstaller(
            self,
            "Charts",
            cluster=self.cluster,
            vpc=network.vpc,
            subnets=network.control_plane_subnets,
            security_group=network.security_group,
            kubectl_layer=kubernetes.kubectl_layer,
            key=network.key,
        )
        HyperPodDependencies(
            self,
            "HyperPodDependencies",
            installer=self.chart_installer,
            region=settings.region,
            instance_groups=settings.instance_groups,
        ).node.add_dependency(*kubernetes.early_addons)
        ClusterAccess(
            self,
            "Access",
            cluster=self.cluster,
            admin_arns=settings.access.admin_principal_arns,
            researcher_arns=settings.access.researcher_principal_arns,
            namespace=settings.ray.namespace,
        )
