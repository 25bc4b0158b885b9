"""The wait until the asked nodes run."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.hyperpod_cluster import HyperPodCluster
from stacks.polled_resource import PolledResource
from stacks.settings import InstanceGroup


class NodeWaiter(Construct):
    """Ends when every instance group runs its nodes; fails with HyperPod's own events when it takes too long.

    What needs nodes depends on it: CloudFormation counts a HyperPod cluster as created before they are there.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        hyperpod: HyperPodCluster,
        instance_groups: Sequence[InstanceGroup],
        timeout: Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        counts = {group.name: group.instance_count for group in instance_groups}
        wait = PolledResource(
            self,
            "Nodes",
            handler="node_readiness",
            properties={
                "ClusterName": hyperpod.name,
                "InstanceGroups": counts,
                "TimeoutSeconds": timeout.to_seconds(),
            },
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "sagemaker:DescribeCluster",
                        "sagemaker:ListClusterEvents",
                        "sagemaker:ListClusterNodes",
                    ],
                    resources=[hyperpod.arn],
                )
            ],
            # The handler's own deadline comes first, because it can say why.
            total_timeout=timeout.plus(Duration.minutes(15)),
            query_interval=Duration.minutes(1),
        )
        wait.node.add_dependency(hyperpod)
        self.running_nodes = wait.resource.get_att_string("RunningNodes")
