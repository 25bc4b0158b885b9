"""HyperPod's instances: they come after the cluster, as with continuous provisioning.

A cluster that CloudFormation made or changed has its nodes pending until somebody has asked for them once;
then they run, and join the Kubernetes cluster. A stack that never asks never has nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.emulated.account import Account, Resource
from tests.emulated.kubernetes import Kubernetes


@dataclass(kw_only=True)
class HyperPod:
    """The nodes of the account's clusters."""

    account: Account
    kubernetes: Kubernetes
    _asked: set[str] = field(default_factory=set)

    def change(self, cluster: Resource) -> None:
        """Instances are asked for; those that run go on running."""
        self._asked.discard(cluster.identity.ref)

    def delete(self, cluster: Resource) -> None:
        """All instances end."""
        self.account.running_nodes.pop(cluster.identity.ref, None)
        self.kubernetes.set_nodes(cluster, 0)

    def operations(self) -> dict[str, Any]:
        """What this project's functions call."""
        return {
            "DescribeCluster": lambda _: {"ClusterStatus": "InService"},
            "ListClusterEvents": lambda _: {"Events": []},
            "ListClusterNodes": self._list_cluster_nodes,
        }

    def _list_cluster_nodes(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        cluster = next(
            cluster
            for cluster in self.account.of_type("AWS::SageMaker::Cluster")
            if parameters["ClusterName"] in (cluster.properties["ClusterName"], cluster.identity.ref)
        )
        arn = cluster.identity.ref
        status = "Running" if arn in self._asked else "Pending"
        self._asked.add(arn)
        nodes = list(_nodes(cluster, status))
        if status == "Running":
            self.account.running_nodes[arn] = len(nodes)
            self.kubernetes.set_nodes(cluster, len(nodes))
        return {"ClusterNodeSummaries": nodes}


def _nodes(cluster: Resource, status: str) -> Iterator[dict[str, Any]]:
    for group in cluster.properties["InstanceGroups"]:
        for number in range(int(group["InstanceCount"])):
            yield {
                "InstanceGroupName": group["InstanceGroupName"],
                "InstanceId": f"i-{number:017x}",
                "InstanceType": group["InstanceType"],
                "LaunchTime": 0,
                "InstanceStatus": {"Status": status},
            }
