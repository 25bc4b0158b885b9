"""How much of a node a Ray pod may ask for.

The kubelet and the machine keep a part of what the instance type promises, daemons of the platform take
another. A pod that asks for more than the rest stays Pending for ever, so the rest is computed here, on the
safe side, and `k8s.validation` holds every manifest against the same figures.
"""

from dataclasses import dataclass
from math import floor

from k8s.props import NodeGroup, WorkloadRefused

MEASURED_MEMORY_SHARE = 0.875
"""Of a type's memory, what a node offers: 168 of 192 GiB on g5.12xlarge, as AWS's samples measured."""
DAEMON_VCPUS = 2
DAEMON_MEMORY_GIB = 8
"""Left for the DaemonSets on every node: health monitoring, device plugins, CNI, CSI, collectors."""
SYSTEM_SHARE = 0.25
"""Of the head's node, what stays for pods without a node of their own: operators, DNS, the submitter."""
SHARED_MEMORY_SHARE = 0.4
"""Of a pod's memory, what /dev/shm may hold: 30 % for Ray's object store, the rest for NCCL and loaders."""
MIB_PER_GIB = 1024


class TooSmall(WorkloadRefused):
    """An instance type has no room for a Ray pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What pods can share of one node."""

    cpu_millicores: int
    memory_mib: int
    gpus: int
    efa_interfaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """What one Ray container asks for; requests and limits are the same."""

    cpus: int
    memory_gib: int
    shared_memory_gib: int
    gpus: int
    efa_interfaces: int


def _reserved_millicores(vcpus: int) -> int:
    """The kubelet's reserve: 6 % of the first core, 1 % of the next, 0.5 % of two more, 0.25 % beyond."""
    shares = [60, 10, 5, 5]
    return round(sum(shares[:vcpus]) + 2.5 * max(0, vcpus - len(shares)))


def allocatable(group: NodeGroup) -> Capacity:
    """One node's capacity for pods, DaemonSets included."""
    kubelet_reserve_mib = 255 + 11 * group.max_pods + 100
    memory_mib = min(
        group.memory_gib * MIB_PER_GIB * MEASURED_MEMORY_SHARE,
        group.memory_gib * MIB_PER_GIB - kubelet_reserve_mib,
    )
    return Capacity(
        cpu_millicores=group.vcpus * 1000 - _reserved_millicores(group.vcpus),
        memory_mib=floor(memory_mib),
        gpus=group.gpus,
        efa_interfaces=group.efa_interfaces,
    )


def free_for_pods(group: NodeGroup) -> Capacity:
    """One node's capacity for pods that are not DaemonSets."""
    node = allocatable(group)
    return Capacity(
        cpu_millicores=node.cpu_millicores - DAEMON_VCPUS * 1000,
        memory_mib=node.memory_mib - DAEMON_MEMORY_GIB * MIB_PER_GIB,
        gpus=node.gpus,
        efa_interfaces=node.efa_interfaces,
    )


def _pod_size(group: NodeGroup, *, share: float, gpus: int, efa_interfaces: int) -> PodSize:
    free = free_for_pods(group)
    cpus = floor(free.cpu_millicores * share / 1000)
    memory_gib = floor(free.memory_mib * share / MIB_PER_GIB)
    if cpus < 1 or memory_gib < 2:
        raise TooSmall(
            f"instance group {group.name}: {group.instance_type} has {group.vcpus} vCPU and"
            f" {group.memory_gib} GiB; {cpus} CPU and {memory_gib} GiB remain for a Ray pod, which needs at"
            " least 1 and 2. Choose a larger instance type."
        )
    return PodSize(
        cpus=cpus,
        memory_gib=memory_gib,
        shared_memory_gib=max(1, floor(memory_gib * SHARED_MEMORY_SHARE)),
        gpus=gpus,
        efa_interfaces=efa_interfaces,
    )


def head_size(group: NodeGroup) -> PodSize:
    """The head leaves room on its node: the platform's own pods have nowhere else to go."""
    return _pod_size(group, share=1 - SYSTEM_SHARE, gpus=0, efa_interfaces=0)


def worker_size(group: NodeGroup) -> PodSize:
    """A worker takes the whole of its node, every GPU and network card included."""
    return _pod_size(group, share=1, gpus=group.gpus, efa_interfaces=group.efa_interfaces)
