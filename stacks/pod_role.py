"""Roles that pods take by EKS Pod Identity."""

from aws_cdk import Aws
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct


def pod_role(scope: Construct, construct_id: str, *, cluster: eks.ICluster) -> iam.Role:
    """A role that only pods of this cluster can take; the association says which service account."""
    return iam.Role(
        scope,
        construct_id,
        assumed_by=iam.SessionTagsPrincipal(
            iam.ServicePrincipal(
                "pods.eks.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnEquals": {"aws:SourceArn": cluster.cluster_arn},
                },
            )
        ),
    )
