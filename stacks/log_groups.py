"""One policy for every log group of the app, those that CDK's own constructs make included."""

import jsii
from aws_cdk import Aspects, IAspect, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct


@jsii.implements(IAspect)
class _LogGroupPolicy:
    def __init__(self, *, key: kms.IKey, retention_days: int, removal_policy: RemovalPolicy) -> None:
        self._key = key
        self._retention_days = retention_days
        self._removal_policy = removal_policy

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, logs.CfnLogGroup):
            node.kms_key_id = self._key.key_arn
            node.retention_in_days = self._retention_days
            node.apply_removal_policy(self._removal_policy)


def govern_log_groups(
    scope: Construct, *, key: kms.IKey, retention_days: int, removal_policy: RemovalPolicy
) -> None:
    """Encrypt every log group below `scope`, limit its age and decide what destroying its stack does.

    Without this, the groups of CDK's own functions (kubectl, custom resources) are unencrypted and retained:
    several would stay after every destroy.
    """
    Aspects.of(scope).add(
        _LogGroupPolicy(key=key, retention_days=retention_days, removal_policy=removal_policy)
    )
