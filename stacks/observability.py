"""Stack: metrics, where they come from and where people look at them."""

from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from stacks.grafana_workspace import GrafanaWorkspace
from stacks.metrics_workspace import MetricsWorkspace
from stacks.observability_addon import ObservabilityAddon
from stacks.removal import removal_policy
from stacks.settings import Settings


class ObservabilityStack(Stack):
    """Managed Prometheus, the HyperPod add-on that fills it, and Managed Grafana when it is asked for."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        cluster: eks.ICluster,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        observability = settings.observability
        removal = removal_policy(settings.removal)
        self.metrics = MetricsWorkspace(self, "Metrics", alias=settings.name, removal_policy=removal)
        self.grafana: GrafanaWorkspace | None = None
        if observability.wants_grafana:
            self.grafana = GrafanaWorkspace(
                self,
                "Grafana",
                name=settings.name,
                authentication=observability.grafana_authentication,
                metrics_workspace_arn=self.metrics.arn,
                removal_policy=removal,
            )
            CfnOutput(self, "GrafanaEndpoint", value=self.grafana.endpoint)
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
