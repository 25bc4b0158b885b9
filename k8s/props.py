"""What the charts need to know, as frozen dataclasses. Sizes are in the unit that the field's name ends with.

A string may be a token that only CloudFormation resolves (image, file system id, DNS name, mount name), so
nothing here checks patterns: `k8s.validation` judges the rendered manifests.
"""

from dataclasses import dataclass
from enum import StrEnum


class WorkloadRefused(Exception):
    """The workload could not run as it is described; the message says where and what to do."""


class Active(StrEnum):
    """Which of the two Ray workloads holds the nodes; the other is applied suspended and holds nothing."""

    JOB = "job"
    """The RayJob: its cluster comes with the run and goes with it."""
    SESSION = "session"
    """The RayCluster that stays, for iterating by `ray job submit`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint that the instance group puts on its nodes; the pods of the group tolerate it."""

    key: str
    value: str
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A HyperPod instance group, as the scheduler sees it. One Ray pod fills one node."""

    name: str
    """HyperPod's name of the group: nodes carry it as label `sagemaker.amazonaws.com/instance-group-name`."""
    instance_type: str
    """With the `ml.` prefix, as nodes carry it in `node.kubernetes.io/instance-type`."""
    count: int
    """Nodes, hence Ray pods."""
    vcpus: int
    """What one node shows to Kubernetes: half the type's figure when the group runs one thread per core."""
    memory_gib: int
    max_pods: int
    """Pods with an address on one node; the kubelet's memory reserve grows with it."""
    gpus: int = 0
    efa_interfaces: int = 0
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorage:
    """The FSx for Lustre file system that every Ray pod mounts at `/shared`."""

    file_system_id: str
    dns_name: str
    mount_name: str
    capacity_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One training run: its id names the RayJob and the folder on the shared file system."""

    run_id: str
    profile: str
    """Name of a file in training/profiles/."""
    deadline_seconds: int
    """Longest time from the job's start, image pull and queueing included, to its end."""
    start_deadline_seconds: int = 7200
    """Longest wait until the cluster is up and the job runs."""
    retries: int = 3
    """New attempts, each with a fresh RayCluster, that resume from the newest complete checkpoint."""
    keep_seconds: int = 600
    """How long the cluster outlives the job, for logs and the dashboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedArtifact:
    """A model or data set that is put on the shared file system before anything trains."""

    source: str
    """`hf://owner/name[@revision][/folder]` or `s3://bucket/prefix`, as `training.staging` reads it."""
    folder: str
    """Under the shared mount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardLinks:
    """Where the Ray dashboard finds the panels that it embeds."""

    grafana_url: str
    prometheus_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RayWorkload:
    """Everything that the charts of one namespace are made from."""

    deployment: str
    """Name of the whole deployment. Cluster-scoped objects carry it: two deployments never collide."""
    namespace: str
    image: str
    """Image of every Ray pod, head and workers alike, by tag or digest."""
    ray_version: str
    head: NodeGroup
    """Runs Ray's control plane and the job's driver; offers no CPU and no GPU to tasks."""
    workers: NodeGroup
    storage: SharedStorage
    run: TrainingRun
    staged: tuple[StagedArtifact, ...] = ()
    hub_token_secret_arn: str | None = None
    """Secrets Manager secret with the hub's token, read by the staging job under its own pod identity."""
    active: Active = Active.JOB
    queue: str | None = None
    """Kueue's local queue, when HyperPod task governance admits the workloads."""
    dashboards: DashboardLinks | None = None
