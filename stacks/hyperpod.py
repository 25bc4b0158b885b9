"""Stack: the HyperPod cluster, everything its nodes need to come up, and the wait until they are ready."""

from typing import Any

from aws_cdk import Duration, Stack
from constructs import Construct

from stacks import names
from stacks.cluster import ClusterStack
from stacks.execution_role import ExecutionRole
from stacks.hyperpod_cluster import HyperPodCluster
from stacks.lifecycle_script import LifecycleScript
from stacks.network import NetworkStack
from stacks.node_waiter import NodeWaiter
from stacks.removal import removal_policy
from stacks.service_logs import ServiceLogs
from stacks.settings import Settings


class HyperPodStack(Stack):
    """Node role, lifecycle script, cluster with its instance groups, node waiter."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        network: NetworkStack,
        kubernetes: ClusterStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        service_logs = ServiceLogs(
            self,
            "ServiceLogs",
            prefix=names.hyperpod_log_group_prefix(settings),
            removal_policy=removal_policy(settings.removal),
        )
        script = LifecycleScript(self, "Lifecycle", deployment=settings.name)
        role = ExecutionRole(
            self,
            "Execution",
            subnet=network.node_subnet,
            security_group=network.security_group,
            cluster=kubernetes.cluster,
            scripts=script.bucket,
        ).role
        self.cluster = HyperPodCluster(
            self,
            "HyperPod",
            name=names.cluster_name(settings),
            cluster=kubernetes.cluster,
            instance_groups=settings.instance_groups,
            subnet=network.node_subnet,
            security_group=network.security_group,
            execution_role=role,
            lifecycle_source_uri=script.source_uri,
        )
        self.cluster.node.add_dependency(script, service_logs)
        NodeWaiter(
            self,
            "Readiness",
            hyperpod=self.cluster,
            instance_groups=settings.instance_groups,
            timeout=Duration.minutes(settings.node_timeout_minutes),
        )
