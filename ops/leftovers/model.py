"""A kind of resource, how those of one deployment are told from all others, and how one is deleted."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ops.aws import Aws
from stacks.names import DEPLOYMENT_TAG, cluster_name
from stacks.settings import Settings

KUBERNETES_TAGS = ("elbv2.k8s.aws/cluster", "aws:eks:cluster-name", "KubernetesCluster")
"""Tags whose value is the name of the cluster that controllers made a resource for."""

type Tags = Mapping[str, str]
type Found = tuple[str, str]
"""Identifier, and what proves that it is ours."""


@dataclass(frozen=True)
class Scope:
    """One deployment in one account and region. A neighbour differs in tag, cluster and VPC."""

    settings: Settings
    aws: Aws

    def owns(self, tags: Tags) -> str | None:
        """The tag that makes a resource ours, else None."""
        if tags.get(DEPLOYMENT_TAG) == self.settings.name:
            return f"{DEPLOYMENT_TAG}={self.settings.name}"
        return self._cluster_tag(tags)

    def _cluster_tag(self, tags: Tags) -> str | None:
        cluster = cluster_name(self.settings)
        if tags.get(f"kubernetes.io/cluster/{cluster}") == "owned":
            return f"kubernetes.io/cluster/{cluster}=owned"
        return next((f"{key}={cluster}" for key in KUBERNETES_TAGS if tags.get(key) == cluster), None)

    @cached_property
    def vpc_ids(self) -> tuple[str, ...]:
        """VPCs that carry our tag."""
        ours = {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [self.settings.name]}
        return tuple(vpc["VpcId"] for vpc in self.aws.pages("ec2", "describe_vpcs", "Vpcs", Filters=[ours]))

    def in_our_vpcs(self, operation: str, key: str) -> list[Any]:
        """What an EC2 operation lists in our VPCs; nothing without any, never everything."""
        if not self.vpc_ids:
            return []
        inside = [{"Name": "vpc-id", "Values": list(self.vpc_ids)}]
        return self.aws.pages("ec2", operation, key, Filters=inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of resource."""

    name: str
    find: Callable[[Scope], Iterator[Found]]
    delete: Callable[[Scope, str], object] | None = None
    """None for what only a person or CloudFormation should delete."""
    is_kept: Callable[[Settings], bool] = lambda _: False
    """Whether the settings ask to retain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One resource that is still there."""

    kind: str
    identifier: str
    evidence: str
    kept: bool
    """The settings say `retain`, so it is there on purpose."""


def tags_of(rows: Iterable[Mapping[str, str]]) -> Tags:
    """From AWS's list form; some services write the words in lower case."""
    return {row.get("Key", row.get("key", "")): row.get("Value", row.get("value", "")) for row in rows}
