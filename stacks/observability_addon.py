"""The HyperPod observability add-on: collectors on every node that write to Managed Prometheus."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.grafana_workspace import GrafanaWorkspace
from stacks.metrics_workspace import MetricsWorkspace
from stacks.pod_role import pod_role
from stacks.settings import MetricsLevel

ADDON_NAME = "amazon-sagemaker-hyperpod-observability"
NAMESPACE = "hyperpod-observability"
SERVICE_ACCOUNT = "hyperpod-observability-operator-otel-collector"
SCRAPE_INTERVAL_SECONDS = 30


class ObservabilityAddon(Construct):
    """The add-on, the role of its collector, and the pod identity that ties them.

    It needs a node of at least 4xlarge size and the Pod Identity agent, so it comes after the nodes.
    Destroying it ends the collection; what was collected stays in the workspace.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        metrics: MetricsWorkspace,
        grafana: GrafanaWorkspace | None,
        levels: Mapping[str, MetricsLevel],
        version: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        role = self._collector_role(cluster=cluster, metrics=metrics)
        identity = eks.CfnPodIdentityAssociation(
            self,
            "PodIdentity",
            cluster_name=cluster.cluster_name,
            namespace=NAMESPACE,
            service_account=SERVICE_ACCOUNT,
            role_arn=role.role_arn,
        )
        addon = eks.CfnAddon(
            self,
            "Addon",
            addon_name=ADDON_NAME,
            addon_version=version,
            cluster_name=cluster.cluster_name,
            resolve_conflicts="OVERWRITE",
            configuration_values=Stack.of(self).to_json_string(
                configuration(metrics=metrics, grafana=grafana, levels=levels)
            ),
        )
        # A collector that starts before its identity gets no credentials and does not ask again.
        addon.node.add_dependency(identity, role)

    def _collector_role(self, *, cluster: eks.ICluster, metrics: MetricsWorkspace) -> iam.Role:
        stack = Stack.of(self)
        role = pod_role(self, "CollectorRole", cluster=cluster)
        role.add_to_policy(iam.PolicyStatement(actions=["aps:RemoteWrite"], resources=[metrics.arn]))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:DescribeLogGroups",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                    "logs:PutRetentionPolicy",
                    "logs:StartQuery",
                ],
                resources=[
                    stack.format_arn(
                        service="logs", resource="log-group:/aws/sagemaker/Clusters", resource_name="*"
                    )
                ],
            )
        )
        # Results of a query belong to no log group.
        role.add_to_policy(
            iam.PolicyStatement(actions=["logs:GetQueryResults", "logs:StopQuery"], resources=["*"])
        )
        return role


def configuration(
    *, metrics: MetricsWorkspace, grafana: GrafanaWorkspace | None, levels: Mapping[str, MetricsLevel]
) -> dict[str, Any]:
    """The add-on's configuration values. Keys of `levels` are the add-on's own; it refuses unknown ones."""
    values: dict[str, Any] = {
        "ampWorkspace": {"prometheusEndpoint": metrics.endpoint, "arn": metrics.arn},
        "metricsProvider": {
            key: {"level": level.value, "scrapeInterval": SCRAPE_INTERVAL_SECONDS}
            for key, level in sorted(levels.items())
        },
        "logging": {"enabled": True},
    }
    if grafana is not None:
        values["amgWorkspace"] = {"workspaceName": grafana.name, "arn": grafana.arn}
    return values
