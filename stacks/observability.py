"""Stack: metrics, where they come from and where people look at them."""

from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from stacks.dashboards.content import grafana_content
from stacks.file_system import FileSystem
from stacks.grafana_content import AlertTopic, GrafanaContent
from stacks.grafana_workspace import GrafanaWorkspace
from stacks.metrics_workspace import MetricsWorkspace
from stacks.observability_addon import ObservabilityAddon
from stacks.removal import removal_policy
from stacks.settings import Observability, Settings


class ObservabilityStack(Stack):
    """Managed Prometheus, the HyperPod add-on that fills it, and Managed Grafana when it is asked for."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        cluster: eks.ICluster,
        file_system: FileSystem,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        observability = settings.observability
        removal = removal_policy(settings.removal)
        self.metrics = MetricsWorkspace(self, "Metrics", alias=settings.name, removal_policy=removal)
        self.grafana: GrafanaWorkspace | None = None
        if observability.wants_grafana:
            self.grafana = self._grafana(settings, file_system=file_system)
        ObservabilityAddon(
            self,
            "Addon",
            cluster=cluster,
            metrics=self.metrics,
            grafana=self.grafana,
            levels=observability.metrics,
            version=observability.addon_version,
        )
        CfnOutput(self, "PrometheusEndpoint", value=self.metrics.endpoint)

    def _grafana(self, settings: Settings, *, file_system: FileSystem) -> GrafanaWorkspace:
        """The workspace and what is in it."""
        observability = settings.observability
        topic = AlertTopic(self, "Alerts", deployment=settings.name, emails=observability.alert_emails).topic
        workspace = GrafanaWorkspace(
            self,
            "Grafana",
            name=settings.name,
            authentication=observability.grafana_authentication,
            metrics_workspace_arn=self.metrics.arn,
            alert_topic=topic,
            removal_policy=removal_policy(settings.removal),
        )
        GrafanaContent(
            self,
            "GrafanaContent",
            workspace=workspace,
            content=grafana_content(settings),
            values={
                "PROMETHEUS_ENDPOINT": self.metrics.endpoint,
                "FILE_SYSTEM_ID": file_system.file_system_id,
                "TOPIC_ARN": topic.topic_arn,
            },
            roles=grafana_roles(observability),
        )
        CfnOutput(self, "GrafanaEndpoint", value=workspace.endpoint)
        return workspace


def grafana_roles(observability: Observability) -> list[dict[str, str]]:
    """Who is what in Grafana, by Identity Center group."""
    groups = (
        ("ADMIN", observability.grafana_admin_group_ids),
        ("VIEWER", observability.grafana_viewer_group_ids),
    )
    return [{"Role": role, "Type": "SSO_GROUP", "Id": group} for role, ids in groups for group in ids]
