"""What is in the Grafana workspace, as code, and where its alerts go."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.grafana_workspace import GrafanaWorkspace
from stacks.handler_function import HandlerFunction

_ACCOUNT_ACTIONS = (
    "CreateWorkspaceServiceAccount",
    "CreateWorkspaceServiceAccountToken",
    "DeleteWorkspaceServiceAccount",
    "DescribeWorkspace",
    "ListWorkspaceServiceAccounts",
    "UpdatePermissions",
)


class AlertTopic(Construct):
    """The topic that alerts are sent to; each address has to confirm its subscription once."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: str, emails: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(
            self,
            "Topic",
            # Managed Grafana publishes to topics of this prefix only.
            topic_name=f"grafana-{deployment}",
            enforce_ssl=True,
            # SNS's own key: every principal of the account that may publish may use it.
            master_key=kms.Alias.from_alias_name(self, "Key", "alias/aws/sns"),
        )
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))


class GrafanaContent(Construct):
    """Puts a document of data sources, dashboards and alerts into a workspace, and takes it out at the end.

    `values` fill the document's placeholders with what only a deployment knows. What people made in other
    folders is left alone.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workspace: GrafanaWorkspace,
        content: Mapping[str, Any],
        values: Mapping[str, str],
        roles: Sequence[Mapping[str, str]],
    ) -> None:
        super().__init__(scope, construct_id)
        asset = _as_asset(self, content)
        stack = Stack.of(self)
        log_group = logs.LogGroup(self, "Log")
        function = HandlerFunction(
            self,
            "OnEvent",
            entry="grafana_content.on_event",
            timeout=Duration.minutes(10),
            log_group=log_group,
            statements=[
                iam.PolicyStatement(
                    actions=[f"grafana:{action}" for action in _ACCOUNT_ACTIONS],
                    resources=[workspace.arn, f"{workspace.arn}/*"],
                ),
            ],
        )
        asset.grant_read(function)
        if roles and function.role:
            # Giving a role to a group asks Identity Center in ways that only this policy spells out.
            function.role.add_managed_policy(
                iam.ManagedPolicy.from_aws_managed_policy_name("AWSGrafanaWorkspacePermissionManagementV2")
            )
        provider = cr.Provider(self, "Provider", on_event_handler=function, log_group=log_group)
        CustomResource(
            self,
            "Content",
            resource_type="Custom::GrafanaContent",
            service_token=provider.service_token,
            properties={
                "WorkspaceId": workspace.workspace_id,
                "Endpoint": workspace.endpoint,
                "Bucket": asset.s3_bucket_name,
                "Key": asset.s3_object_key,
                "Values": {"REGION": stack.region, **values},
                "Roles": [dict(role) for role in roles],
            },
        ).node.add_dependency(function)


def _as_asset(scope: Construct, content: Mapping[str, Any]) -> s3_assets.Asset:
    """The document as a file in the bootstrap bucket: too large for a custom resource's properties."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grafana-content.json"
        path.write_text(json.dumps(content, sort_keys=True), encoding="utf-8")
        return s3_assets.Asset(scope, "Document", path=str(path))
