"""Settings in, stacks out. `cdk synth -c environment=<name>` picks an environment of cdk.json."""

import sys

import aws_cdk as cdk
from aws_cdk import Environment, Tags

from stacks import names
from stacks.addons import AddonsStack
from stacks.cluster import ClusterStack
from stacks.faults import SettingsError
from stacks.hyperpod import HyperPodStack
from stacks.log_groups import govern_log_groups
from stacks.network import NetworkStack
from stacks.removal import removal_policy
from stacks.settings import DEFAULT_ENVIRONMENT, Settings, load_settings


def compose(app: cdk.App, settings: Settings) -> None:
    """Add the stacks in their order of life: a later one may use an earlier one, never the reverse."""
    env = Environment(region=settings.region)
    network = NetworkStack(app, names.stack_name(settings, "network"), settings=settings, env=env)
    cluster = ClusterStack(
        app, names.stack_name(settings, "cluster"), settings=settings, network=network, env=env
    )
    hyperpod = HyperPodStack(
        app,
        names.stack_name(settings, "hyperpod"),
        settings=settings,
        network=network,
        cluster=cluster,
        env=env,
    )
    addons = AddonsStack(
        app, names.stack_name(settings, "addons"), settings=settings, cluster=cluster, env=env
    )
    addons.add_stack_dependency(hyperpod)

    Tags.of(app).add(names.DEPLOYMENT_TAG, settings.name)
    govern_log_groups(
        app,
        key=network.key,
        retention_days=settings.log_retention_days,
        removal_policy=removal_policy(settings.removal),
    )


def main() -> None:
    app = cdk.App()
    try:
        settings = load_settings(app.node.try_get_context("environment") or DEFAULT_ENVIRONMENT)
    except SettingsError as error:
        sys.exit(f"settings of cdk.json are refused:\n{error}")
    compose(app, settings)
    app.synth()


if __name__ == "__main__":
    main()
