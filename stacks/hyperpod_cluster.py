"""The HyperPod cluster and its instance groups."""

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.lifecycle_script import ON_CREATE
from stacks.settings import InstanceGroup

DEEP_HEALTH_CHECKS = ["InstanceStress", "InstanceConnectivity"]


class HyperPodCluster(Construct):
    """Instance groups that HyperPod creates, checks and replaces, as nodes of an EKS cluster.

    Continuous provisioning takes instances as they come; CloudFormation reports success before they are
    ready, so whatever needs nodes waits for `NodeWaiter`. Destroying it ends the instances and loses what
    lies on their own disks. Name, network and orchestrator cannot change without replacement.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        cluster: eks.ICluster,
        instance_groups: Sequence[InstanceGroup],
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        execution_role: iam.IRole,
        lifecycle_source_uri: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name = name
        network = sagemaker.CfnCluster.VpcConfigProperty(
            subnets=[subnet.subnet_id], security_group_ids=[security_group.security_group_id]
        )
        self.resource = sagemaker.CfnCluster(
            self,
            "Cluster",
            cluster_name=name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=cluster.cluster_arn)
            ),
            vpc_config=network,
            node_recovery="Automatic",
            node_provisioning_mode="Continuous",
            instance_groups=[
                _instance_group(
                    group,
                    network=network,
                    execution_role_arn=execution_role.role_arn,
                    lifecycle_source_uri=lifecycle_source_uri,
                )
                for group in instance_groups
            ],
        )
        # The reference to the role's ARN does not wait for the role's policies.
        self.resource.node.add_dependency(execution_role)

    @property
    def arn(self) -> str:
        return self.resource.attr_cluster_arn


def _instance_group(
    group: InstanceGroup,
    *,
    network: sagemaker.CfnCluster.VpcConfigProperty,
    execution_role_arn: str,
    lifecycle_source_uri: str,
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    properties = sagemaker.CfnCluster
    return properties.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=group.instance_type,
        instance_count=group.instance_count,
        execution_role=execution_role_arn,
        # Always explicit: with one thread a node offers half its CPUs and a full-node pod never fits.
        threads_per_core=group.threads_per_core,
        life_cycle_config=properties.ClusterLifeCycleConfigProperty(
            source_s3_uri=lifecycle_source_uri, on_create=ON_CREATE
        ),
        instance_storage_configs=[
            properties.ClusterInstanceStorageConfigProperty(
                ebs_volume_config=properties.ClusterEbsVolumeConfigProperty(
                    volume_size_in_gb=group.ebs_volume_gib
                )
            )
        ],
        # Pins the group to the one subnet even if the cluster's own list grows one day.
        override_vpc_config=network,
        kubernetes_config=_kubernetes_config(group),
        on_start_deep_health_checks=DEEP_HEALTH_CHECKS if group.deep_health_checks else None,
        training_plan_arn=group.training_plan_arn,
        capacity_requirements=_capacity(group),
    )


def _kubernetes_config(
    group: InstanceGroup,
) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty | None:
    if not group.labels and not group.taints:
        return None
    return sagemaker.CfnCluster.ClusterKubernetesConfigProperty(
        labels=group.labels or None,
        taints=[
            sagemaker.CfnCluster.ClusterKubernetesTaintProperty(
                key=taint.key, value=taint.value, effect=taint.effect
            )
            for taint in group.taints
        ]
        or None,
    )


def _capacity(group: InstanceGroup) -> sagemaker.CfnCluster.ClusterCapacityRequirementsProperty | None:
    return sagemaker.CfnCluster.ClusterCapacityRequirementsProperty(spot={}) if group.is_spot else None
