"""Settings in, stacks out. `cdk synth --context environment=<name>` picks an environment of cdk.json."""

from typing import Any

import aws_cdk as cdk

from k8s.props import WorkloadRefused
from stacks.addons import AddonsStack
from stacks.cluster import ClusterStack
from stacks.faults import SettingsError
from stacks.governance import govern
from stacks.hyperpod import HyperPodStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.ray import RayStack
from stacks.registry import RegistryStack
from stacks.settings import DEFAULT_ENVIRONMENT, METADATA_TYPE, Settings, load_settings
from stacks.storage import StorageStack
from stacks.studio import StudioStack


def compose(app: cdk.App, settings: Settings) -> None:
    """Add the stacks in their order of life; each depends on earlier ones only."""
    env = cdk.Environment(region=settings.region)

    def at(part: str) -> dict[str, Any]:
        return {"scope": app, "construct_id": f"{settings.name}-{part}", "settings": settings, "env": env}

    network = NetworkStack(**at("network"))
    network.node.add_metadata(METADATA_TYPE, settings.model_dump(mode="json", exclude_unset=True))
    vpc, group = network.vpc, network.security_group
    storage = StorageStack(**at("storage"), vpc=vpc, subnet=network.node_subnet, security_group=group)
    registry = RegistryStack(**at("registry"))
    kubernetes = ClusterStack(**at("cluster"), network=network)
    cluster = kubernetes.cluster
    hyperpod = HyperPodStack(**at("hyperpod"), network=network, kubernetes=kubernetes)
    addons = AddonsStack(**at("addons"), cluster=cluster, file_system=storage.file_system)
    metrics = ObservabilityStack(**at("observability"), cluster=cluster, file_system=storage.file_system)
    ray = RayStack(**at("ray"), kubernetes=kubernetes, storage=storage, image=registry.image_uri)
    # No reference says that pods need nodes, nor that Ray's pods need DNS, the FSx driver and metrics.
    addons.add_stack_dependency(hyperpod)
    metrics.add_stack_dependency(addons)
    ray.add_stack_dependency(metrics)
    if settings.studio.enabled:
        studio = at("studio") | {"vpc": vpc, "subnets": vpc.private_subnets, "security_group": group}
        StudioStack(**studio, cluster=cluster, hyperpod_cluster_arn=hyperpod.cluster.arn)
    govern(app, settings=settings, key=network.key)


def main() -> None:
    app = cdk.App()
    try:
        compose(app, load_settings(app.node.try_get_context("environment") or DEFAULT_ENVIRONMENT))
    except (SettingsError, WorkloadRefused) as error:
        raise SystemExit(f"The settings in cdk.json are refused:\n{error}") from None
    app.synth()


if __name__ == "__main__":
    main()
