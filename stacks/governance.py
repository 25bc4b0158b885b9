"""What every resource of the app has in common: its tag, and how logs are kept."""

import jsii
from aws_cdk import Aspects, CfnResource, IAspect, RemovalPolicy, Tags
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from stacks import names
from stacks.removal import removal_policy
from stacks.settings import Settings


def govern(scope: Construct, *, settings: Settings, key: kms.IKey) -> None:
    """Tag everything below `scope`; encrypt every log group, limit its age, decide what destroy does with it.

    Without the second part the log groups of CDK's own functions (kubectl, custom resources) would be
    unencrypted and would stay after every destroy.
    """
    Tags.of(scope).add(names.DEPLOYMENT_TAG, settings.name)
    Aspects.of(scope).add(_OwnLogGroups())
    Aspects.of(scope).add(
        _LogGroupPolicy(
            key=key,
            retention_days=settings.log_retention_days,
            removal_policy=removal_policy(settings.removal),
        )
    )


@jsii.implements(IAspect)
class _OwnLogGroups:
    """Gives a log group to each function that has none: those of CDK's custom resource providers.

    Lambda would make the group at the first call, and nobody would ever delete it.
    """

    def visit(self, node: IConstruct) -> None:
        if not isinstance(node, CfnResource) or isinstance(node, lambda_.CfnFunction):
            return
        if node.cfn_resource_type == "AWS::Lambda::Function":
            group = logs.LogGroup(node, "LogGroup")
            node.add_property_override("LoggingConfig", {"LogGroup": group.log_group_name})


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
