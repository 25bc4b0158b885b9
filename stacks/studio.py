"""Stack, off by default: SageMaker Studio as a way into the cluster for researchers."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.settings import Settings

TRAINING_POLICY = "AmazonSagemakerHyperpodTrainingPolicy"
"""EKS access policy: RayCluster, RayJob and dashboard connections in one namespace."""
CLUSTER_READ_POLICY = "AmazonSagemakerHyperpodUserClusterPolicy"
"""EKS access policy: cluster-wide reads; it works with cluster scope only."""


class StudioStack(Stack):
    """A Studio domain in the VPC and one user profile, whose role reaches the cluster.

    Two grants are needed: IAM for the AWS side, an EKS access entry for the Kubernetes side. Destroying the
    stack fails while an app or a space of the domain runs, and leaves the domain's home file system.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        vpc: ec2.IVpc,
        subnets: list[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        cluster: eks.ICluster,
        hyperpod_cluster_arn: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        role = iam.Role(
            self,
            "UserRole",
            description="Studio users that run Ray jobs on the HyperPod cluster",
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": self.account}}
            ),
            inline_policies={
                "RayOnHyperPod": user_policy(
                    cluster_arn=cluster.cluster_arn, hyperpod_cluster_arn=hyperpod_cluster_arn
                )
            },
        )
        entry = eks.AccessEntry(
            self,
            "AccessEntry",
            cluster=cluster,
            principal=role.role_arn,
            access_policies=[
                eks.AccessPolicy.from_access_policy_name(
                    TRAINING_POLICY,
                    access_scope_type=eks.AccessScopeType.NAMESPACE,
                    namespaces=[settings.ray.namespace],
                ),
                eks.AccessPolicy.from_access_policy_name(
                    CLUSTER_READ_POLICY, access_scope_type=eks.AccessScopeType.CLUSTER
                ),
            ],
        )
        user_settings = sagemaker.CfnDomain.UserSettingsProperty(
            execution_role=role.role_arn,
            security_groups=[security_group.security_group_id],
            studio_web_portal="ENABLED",
            default_landing_uri="studio::",
        )
        domain = sagemaker.CfnDomain(
            self,
            "Domain",
            domain_name=settings.name,
            auth_mode="IAM",
            app_network_access_type="VpcOnly",
            vpc_id=vpc.vpc_id,
            subnet_ids=[subnet.subnet_id for subnet in subnets],
            default_user_settings=user_settings,
        )
        domain.node.add_dependency(role)
        profile = sagemaker.CfnUserProfile(
            self,
            "UserProfile",
            domain_id=domain.attr_domain_id,
            user_profile_name="researcher",
            user_settings=sagemaker.CfnUserProfile.UserSettingsProperty(execution_role=role.role_arn),
        )
        profile.node.add_dependency(entry)


def user_policy(*, cluster_arn: str, hyperpod_cluster_arn: str) -> iam.PolicyDocument:
    """What Studio needs of AWS to list the cluster and open it; Kubernetes decides what happens inside."""
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(actions=["sagemaker:DescribeCluster"], resources=[hyperpod_cluster_arn]),
            # Lists and network descriptions know no resources.
            iam.PolicyStatement(
                actions=[
                    "sagemaker:ListClusters",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeVpcs",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(
                actions=[
                    "eks:AccessKubernetesApi",
                    "eks:DescribeCluster",
                    "eks:MutateViaKubernetesApi",
                ],
                resources=[cluster_arn],
            ),
            # AWS's documentation writes the add-on's resource as the cluster's ARN with a wildcard.
            iam.PolicyStatement(actions=["eks:DescribeAddon"], resources=[f"{cluster_arn}/*"]),
        ]
    )
