"""What the job that stages models may read of AWS."""

from aws_cdk import Aws
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from k8s.names import STAGING
from stacks.pod_role import pod_role
from stacks.settings import Staging

_S3 = "s3://"


class StagingIdentity(Construct):
    """A role for the staging job's service account: its S3 sources and the hub's token, nothing else.

    Pods reach no instance metadata on HyperPod, so this is the only way for the job to credentials.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        namespace: str,
        staging: Staging,
    ) -> None:
        super().__init__(scope, construct_id)
        role = pod_role(self, "Role", cluster=cluster)
        for statement in statements(staging):
            role.add_to_policy(statement)
        association = eks.CfnPodIdentityAssociation(
            self,
            "PodIdentity",
            cluster_name=cluster.cluster_name,
            namespace=namespace,
            service_account=STAGING,
            role_arn=role.role_arn,
        )
        # The association refers to the role, not to what the role may do.
        association.node.add_dependency(role)


def statements(staging: Staging) -> list[iam.PolicyStatement]:
    """Read rights for every s3:// source and for the token's secret."""
    needed = []
    for artifact in staging.artifacts:
        if artifact.source.startswith(_S3):
            path = artifact.source.removeprefix(_S3).rstrip("/")
            needed.append(
                iam.PolicyStatement(
                    actions=["s3:GetObject"], resources=[f"arn:{Aws.PARTITION}:s3:::{path}/*"]
                )
            )
    if staging.hub_token_secret_arn:
        needed.append(
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[staging.hub_token_secret_arn]
            )
        )
    return needed
