"""The role that HyperPod's nodes run with."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct


class ExecutionRole(Construct):
    """What a node may do: be a HyperPod node, wire its network interface, pull images, serve pod identities.

    Pods get nothing from it, because they reach no instance metadata. Statements with resource `*` are those
    whose actions know no resource; docs/security.md lists them.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        cluster: eks.ICluster,
        scripts: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
            ],
        )
        stack = Stack.of(self)
        interfaces = stack.format_arn(service="ec2", resource="network-interface", resource_name="*")
        network = [
            interfaces,
            stack.format_arn(service="ec2", resource="subnet", resource_name=subnet.subnet_id),
            stack.format_arn(
                service="ec2", resource="security-group", resource_name=security_group.security_group_id
            ),
        ]
        for statement in (
            iam.PolicyStatement(
                sid="NetworkInterfaces",
                actions=[
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:AttachNetworkInterface",
                    "ec2:CreateNetworkInterface",
                    "ec2:CreateNetworkInterfacePermission",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DeleteNetworkInterfacePermission",
                    "ec2:DetachNetworkInterface",
                    "ec2:ModifyNetworkInterfaceAttribute",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                resources=[
                    *network,
                    stack.format_arn(service="ec2", resource="instance", resource_name="*"),
                ],
            ),
            iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces]),
            iam.PolicyStatement(
                sid="DescribeNetwork",
                actions=[
                    "ec2:DescribeDhcpOptions",
                    "ec2:DescribeInstances",
                    "ec2:DescribeInstanceTypes",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeTags",
                    "ec2:DescribeVpcs",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(sid="RegistryLogin", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
            iam.PolicyStatement(
                sid="PullImages",
                actions=[
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                # HyperPod's and EKS's own images come from accounts of AWS.
                resources=[f"arn:{Aws.PARTITION}:ecr:{Aws.REGION}:*:repository/*"],
            ),
            iam.PolicyStatement(
                sid="PodIdentities",
                actions=["eks-auth:AssumeRoleForPodIdentity"],
                resources=[cluster.cluster_arn],
            ),
        ):
            self.role.add_to_policy(statement)
        scripts.grant_read(self.role)
