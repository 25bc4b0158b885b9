"""Where metrics are kept: Amazon Managed Service for Prometheus."""

from aws_cdk import ArnFormat, Fn, RemovalPolicy, Stack
from aws_cdk import aws_aps as aps
from aws_cdk import aws_logs as logs
from constructs import Construct


class MetricsWorkspace(Construct):
    """A Prometheus workspace with a log of its rule evaluations. Destroying it deletes the metrics."""

    def __init__(
        self, scope: Construct, construct_id: str, *, alias: str, removal_policy: RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(
            self,
            "Log",
            # Managed Prometheus refuses log groups outside this prefix.
            log_group_name=f"/aws/vendedlogs/prometheus/{alias}",
        )
        workspace = aps.CfnWorkspace(
            self,
            "Workspace",
            alias=alias,
            logging_configuration=aps.CfnWorkspace.LoggingConfigurationProperty(
                log_group_arn=Stack.of(self).format_arn(
                    service="logs",
                    resource="log-group",
                    arn_format=ArnFormat.COLON_RESOURCE_NAME,
                    resource_name=f"{log_group.log_group_name}:*",
                )
            ),
        )
        workspace.apply_removal_policy(removal_policy)
        self.workspace_id = workspace.attr_workspace_id
        self.arn = workspace.attr_arn
        self.endpoint = without_trailing_slash(workspace.attr_prometheus_endpoint)


def without_trailing_slash(endpoint: str) -> str:
    """The workspace's endpoint as the observability add-on wants it.

    CloudFormation's attribute ends in a slash, and the add-on appends its own. The endpoint is known only
    at deploy time, so the cut is an intrinsic: what stands before "/workspaces/<id>/" and the id, rejoined.
    """
    parts = Fn.split("/", endpoint)
    host, workspace_id = Fn.select(2, parts), Fn.select(4, parts)
    return Fn.join("", ["https://", host, "/workspaces/", workspace_id])
