"""The key that encrypts logs and Kubernetes secrets."""

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


class EncryptionKey(Construct):
    """A rotating KMS key that CloudWatch Logs of this account and region may use.

    Destroying it makes what it encrypted unreadable after the waiting period, retained logs included; so it
    shares their removal policy.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, description: str, removal_policy: RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self, "Key", description=description, enable_key_rotation=True, removal_policy=removal_policy
        )
        stack = Stack.of(self)
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="CloudWatchLogs",
                principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
                actions=[
                    "kms:Encrypt",
                    "kms:Decrypt",
                    "kms:ReEncrypt*",
                    "kms:GenerateDataKey*",
                    "kms:DescribeKey",
                ],
                resources=["*"],  # in a key policy: this key
                conditions={
                    "ArnLike": {
                        "kms:EncryptionContext:aws:logs:arn": stack.format_arn(
                            service="logs",
                            resource="log-group",
                            resource_name="*",
                            arn_format=ArnFormat.COLON_RESOURCE_NAME,
                        )
                    }
                },
            )
        )
