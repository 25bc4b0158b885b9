"""The EKS cluster as HyperPod wants it: no nodes of its own, and the add-ons that need none."""

from collections.abc import Sequence
from typing import cast

from aws_cdk import CfnResource
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v34 import KubectlV34Layer
from constructs import Construct

from stacks.addon_versions import AddonVersions
from stacks.rules import SERVICE_NETWORK

ALL_LOG_TYPES = [
    eks.ClusterLoggingTypes.API,
    eks.ClusterLoggingTypes.AUDIT,
    eks.ClusterLoggingTypes.AUTHENTICATOR,
    eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
    eks.ClusterLoggingTypes.SCHEDULER,
]


class KubernetesCluster(Construct):
    """EKS with private API access always and public access from the given networks only.

    Secrets are encrypted with `key`, all control-plane logs go to a log group of ours. `early_addons` hold
    what a node needs while it joins: network, service routing, credentials for pods. Destroying it deletes
    every Kubernetes object; HyperPod must be gone before.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        version: str,
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        security_group: ec2.ISecurityGroup,
        public_access_cidrs: Sequence[str],
        key: kms.IKey,
        log_group_name: str,
        addon_versions: AddonVersions,
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(self, "ControlPlaneLogs", log_group_name=log_group_name)
        self.kubectl_layer = KubectlV34Layer(self, "KubectlLayer")
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(version),
            # HyperPod brings the nodes. The default would be Auto Mode, which replaces the VPC CNI.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_self_managed_addons=False,
            # People come in by access entries; the deploying role gets no lasting rights.
            bootstrap_cluster_creator_admin_permissions=False,
            vpc=vpc,
            vpc_subnets=[subnets],
            security_group=security_group,
            endpoint_access=_endpoint_access(public_access_cidrs),
            service_ipv4_cidr=str(SERVICE_NETWORK),
            secrets_encryption_key=key,
            cluster_logging=ALL_LOG_TYPES,
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=self.kubectl_layer),
        )
        resource = cluster.node.default_child
        assert isinstance(resource, CfnResource)
        resource.node.add_dependency(log_group)
        # The generated Cluster class lacks one optional member of its own interface, for type checkers only.
        self.cluster = cast(eks.ICluster, cluster)
        self.early_addons = [
            eks.CfnAddon(
                self,
                addon_id,
                cluster_name=self.cluster.cluster_name,
                addon_name=addon_name,
                addon_version=addon_version,
                resolve_conflicts="OVERWRITE",
                configuration_values=configuration,
            )
            for addon_id, addon_name, addon_version, configuration in (
                # Ray's network policies are enforced by the CNI, and only when asked.
                ("VpcCni", "vpc-cni", addon_versions.vpc_cni, '{"enableNetworkPolicy": "true"}'),
                ("KubeProxy", "kube-proxy", addon_versions.kube_proxy, None),
                ("PodIdentityAgent", "eks-pod-identity-agent", addon_versions.pod_identity_agent, None),
            )
        ]


def _endpoint_access(public_access_cidrs: Sequence[str]) -> eks.EndpointAccess:
    if not public_access_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)
