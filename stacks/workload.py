"""From settings to what the Kubernetes charts need to know."""

from k8s.props import (
    Active,
    DashboardLinks,
    NodeGroup,
    RayWorkload,
    SharedStorage,
    StagedArtifact,
    Taint,
    TrainingRun,
)
from stacks.settings import InstanceGroup, RayDashboard, Settings

RAY_VERSION = "2.57.0"
"""Of the training image; SkyRL 0.4.0 pins it."""
_SECONDS_PER_HOUR = 3600


def ray_workload(
    settings: Settings, *, image: str, file_system_id: str, dns_name: str, mount_name: str
) -> RayWorkload:
    """The Ray workload of an environment. The strings may be tokens that only a deployment resolves."""
    return RayWorkload(
        deployment=settings.name,
        namespace=settings.ray.namespace,
        image=image,
        ray_version=RAY_VERSION,
        head=node_group(settings.head_group),
        workers=node_group(settings.worker_group),
        storage=SharedStorage(
            file_system_id=file_system_id,
            dns_name=dns_name,
            mount_name=mount_name,
            capacity_gib=settings.storage.capacity_gib,
        ),
        run=TrainingRun(
            run_id=settings.job.run_id,
            profile=settings.job.profile,
            deadline_seconds=settings.job.deadline_hours * _SECONDS_PER_HOUR,
            retries=settings.job.retries,
        ),
        staged=tuple(
            StagedArtifact(source=artifact.source, folder=artifact.folder)
            for artifact in settings.staging.artifacts
        ),
        hub_token_secret_arn=settings.staging.hub_token_secret_arn,
        active=Active(settings.ray.active.value),
        queue=settings.ray.queue,
        dashboards=_links(settings.ray.dashboard),
    )


def _links(dashboard: RayDashboard | None) -> DashboardLinks | None:
    if dashboard is None:
        return None
    return DashboardLinks(grafana_url=dashboard.grafana_url, prometheus_url=dashboard.prometheus_url)


def node_group(group: InstanceGroup) -> NodeGroup:
    """An instance group as the scheduler sees it."""
    return NodeGroup(
        name=group.name,
        instance_type=group.instance_type,
        count=group.instance_count,
        vcpus=group.vcpus,
        memory_gib=group.type.memory_gib,
        max_pods=group.type.max_pods,
        gpus=group.type.gpus,
        efa_interfaces=group.efa_interfaces,
        taints=tuple(
            Taint(key=taint.key, value=taint.value, effect=taint.effect.value) for taint in group.taints
        ),
    )
