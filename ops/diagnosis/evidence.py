"""What `diagnose` looks at, gathered once: plain JSON, so that it can be saved, sent and looked at later."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from k8s import names
from ops.aws import Aws, is_gone
from ops.kubectl import Kubectl, KubectlError
from stacks.names import cluster_name
from stacks.settings import Settings

LOG_LINES = 200
HYPERPOD_EVENTS = 100

type Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One look at a deployment. Kubernetes objects are as the API server gives them."""

    hyperpod: Json = field(default_factory=dict)
    """DescribeCluster; empty while there is no cluster."""
    hyperpod_events: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    """Of the workload's namespace."""
    operator_pods: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    ray_jobs: list[Json] = field(default_factory=list)
    ray_clusters: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    """The last lines of each Ray pod and submitter, by pod."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def gather(settings: Settings, *, aws: Aws, kubectl: Kubectl) -> Evidence:
    """Read everything; nothing is changed."""
    pods = kubectl.items("pods")
    operator = Kubectl(context=kubectl.context, namespace=names.OPERATOR_NAMESPACE)
    hyperpod, events = _hyperpod(settings, aws)
    return Evidence(
        hyperpod=hyperpod,
        hyperpod_events=events,
        nodes=kubectl.items("nodes"),
        pods=pods,
        operator_pods=operator.items("pods"),
        events=kubectl.items("events"),
        ray_jobs=kubectl.items("rayjobs.ray.io"),
        ray_clusters=kubectl.items("rayclusters.ray.io"),
        claims=kubectl.items("persistentvolumeclaims"),
        logs=dict(_logs(pods, kubectl)),
    )


def _hyperpod(settings: Settings, aws: Aws) -> tuple[Json, list[Json]]:
    sagemaker, name = aws.client("sagemaker"), cluster_name(settings)
    try:
        cluster = sagemaker.describe_cluster(ClusterName=name)
        events = sagemaker.list_cluster_events(ClusterName=name, MaxResults=HYPERPOD_EVENTS)["Events"]
    except ClientError as error:
        if not is_gone(error):
            raise
        return {}, []
    cluster.pop("ResponseMetadata", None)
    return cluster, events


def _logs(pods: list[Json], kubectl: Kubectl) -> Iterator[tuple[str, str]]:
    """A pod whose container has not started has no log; that is no failure of the diagnosis."""
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            yield name, kubectl.run("logs", name, "--all-containers", f"--tail={LOG_LINES}")
        except KubectlError as error:
            yield name, f"(no log: {error})"
