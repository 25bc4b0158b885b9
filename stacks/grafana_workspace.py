"""Where people look at metrics: Amazon Managed Grafana."""

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_grafana as grafana
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.settings import GrafanaAuthentication

_PROVIDERS = {
    GrafanaAuthentication.IDENTITY_CENTER: "AWS_SSO",
    GrafanaAuthentication.SAML: "SAML",
}
_PROMETHEUS_READS = ("GetLabels", "GetMetricMetadata", "GetSeries", "QueryMetrics")
_CLOUDWATCH_READS = (
    "DescribeAlarmsForMetric",
    "DescribeAlarmHistory",
    "DescribeAlarms",
    "ListMetrics",
    "GetMetricData",
    "GetInsightRuleReport",
)


class GrafanaWorkspace(Construct):
    """A Grafana workspace that reads one Prometheus workspace and CloudWatch, and writes to one topic.

    Who may sign in is decided in Identity Center or by the SAML provider: CloudFormation has no resource
    for it. Destroying the workspace deletes what was made in it by hand.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        authentication: GrafanaAuthentication,
        metrics_workspace_arn: str,
        alert_topic: sns.ITopic,
        removal_policy: RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        role = iam.Role(
            self,
            "Role",
            description="Lets Grafana read the metrics workspace and CloudWatch",
            assumed_by=iam.ServicePrincipal(
                "grafana.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[f"aps:{read}" for read in _PROMETHEUS_READS], resources=[metrics_workspace_arn]
            )
        )
        # CloudWatch's read actions know no resources; the file system's metrics live there.
        role.add_to_policy(
            iam.PolicyStatement(actions=[f"cloudwatch:{read}" for read in _CLOUDWATCH_READS], resources=["*"])
        )
        alert_topic.grant_publish(role)
        workspace = grafana.CfnWorkspace(
            self,
            "Workspace",
            name=name,
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=[_PROVIDERS[authentication]],
            permission_type="CUSTOMER_MANAGED",
            role_arn=role.role_arn,
            data_sources=["PROMETHEUS", "CLOUDWATCH"],
            notification_destinations=["SNS"],
            plugin_admin_enabled=False,
        )
        # Grafana checks its access when the workspace is made.
        workspace.node.add_dependency(role)
        workspace.apply_removal_policy(removal_policy)
        self.name = name
        self.workspace_id = workspace.attr_id
        self.endpoint = workspace.attr_endpoint
        self.arn = stack.format_arn(
            service="grafana",
            resource="/workspaces",
            resource_name=workspace.attr_id,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
