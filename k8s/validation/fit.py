"""Whether the scheduler can place the pods on the instance groups that there are.

A pod that fits nowhere is accepted and stays Pending. The sizes are those of `k8s.sizing`, on the safe side.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

from k8s import names
from k8s.props import NodeGroup, Taint
from k8s.quantity import parse_quantity
from k8s.sizing import MIB_PER_GIB, free_for_pods
from k8s.validation.findings import Fault
from k8s.validation.pods import Json, PodOf

type Amounts = dict[str, Fraction]

_REPELLING = {"NoSchedule", "NoExecute"}
_BYTES_PER_MIB = 2**20


def fit_faults(pod: PodOf, groups: Sequence[NodeGroup]) -> Iterator[Fault]:
    """Why a pod would stay Pending, or would not start where it lands."""
    candidates = [group for group in groups if _selects(pod, group)]
    if not candidates:
        yield _nothing_selected(pod, groups)
        return
    tolerated = [group for group in candidates if not _untolerated(pod, group)]
    if not tolerated:
        yield _repelled(pod, candidates[0])
        return
    large_enough = [group for group in tolerated if not _shortages(pod, group)]
    if not large_enough:
        yield from _too_large(pod, tolerated[0])
        return
    yield from _too_many(pod, large_enough)
    yield from _gpus_where_there_are_none(pod, large_enough)


def _node_labels(group: NodeGroup) -> Mapping[str, str]:
    return {names.INSTANCE_TYPE_LABEL: group.instance_type, names.INSTANCE_GROUP_LABEL: group.name}


def _selects(pod: PodOf, group: NodeGroup) -> bool:
    """Labels that nodes get elsewhere are taken to match: only the group and the type are known here."""
    labels, selector = _node_labels(group), pod.spec.get("nodeSelector") or {}
    return all(labels.get(key, value) == value for key, value in selector.items())


def _nothing_selected(pod: PodOf, groups: Sequence[NodeGroup]) -> Fault:
    there_are = "; ".join(f"{group.name} with {group.instance_type}" for group in groups)
    wanted: str = pod.spec["nodeSelector"].get(names.INSTANCE_TYPE_LABEL, "")
    forgot_prefix = any(group.instance_type == f"ml.{wanted}" for group in groups)
    return Fault(
        pod.at("nodeSelector"),
        f"{pod.spec['nodeSelector']} selects none of the instance groups ({there_are})",
        f"HyperPod's nodes carry the prefix: write ml.{wanted}." if forgot_prefix else "Name one of them.",
    )


def _untolerated(pod: PodOf, group: NodeGroup) -> list[Taint]:
    tolerations = pod.spec.get("tolerations") or []
    return [
        taint
        for taint in group.taints
        if taint.effect in _REPELLING and not any(_tolerates(item, taint) for item in tolerations)
    ]


def _tolerates(toleration: Json, taint: Taint) -> bool:
    has_key = toleration.get("key") in {None, "", taint.key}
    has_effect = toleration.get("effect") in {None, "", taint.effect}
    any_value = toleration.get("operator") == "Exists"
    return has_key and has_effect and (any_value or toleration.get("value", "") == taint.value)


def _repelled(pod: PodOf, group: NodeGroup) -> Fault:
    taint = _untolerated(pod, group)[0]
    text = f"{taint.key}={taint.value}:{taint.effect}"
    return Fault(
        pod.at("tolerations"),
        f"the nodes of {group.name} have the taint {text}, which the pod does not tolerate",
        f"Add a toleration with key {taint.key}, value {taint.value} and effect {taint.effect}.",
    )


def requests_of(pod: PodOf) -> Amounts:
    """What the scheduler counts: the sum of the containers, or the largest init container if that is more."""
    total = _sum(pod.spec.get("containers") or [])
    for container in pod.spec.get("initContainers") or []:
        for name, amount in _sum([container]).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _sum(containers: Sequence[Json]) -> Amounts:
    total: Amounts = {}
    for container in containers:
        resources: Any = container.get("resources") or {}
        # A limit without a request is the request too.
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, amount in amounts.items():
            total[name] = total.get(name, Fraction(0)) + parse_quantity(amount)
    return total


def _free(group: NodeGroup) -> Amounts:
    free = free_for_pods(group)
    return {
        "cpu": Fraction(free.cpu_millicores, 1000),
        "memory": Fraction(free.memory_mib * _BYTES_PER_MIB),
        names.GPU: Fraction(free.gpus),
        names.EFA: Fraction(free.efa_interfaces),
    }


def _shortages(pod: PodOf, group: NodeGroup) -> dict[str, tuple[Fraction, Fraction]]:
    free = _free(group)
    return {
        name: (amount, free.get(name, Fraction(0)))
        for name, amount in requests_of(pod).items()
        if amount > free.get(name, Fraction(0)) and (name in free or "/" in name)
    }


def _too_large(pod: PodOf, group: NodeGroup) -> Iterator[Fault]:
    for name, (asked, free) in _shortages(pod, group).items():
        yield Fault(
            pod.at("containers[0].resources"),
            f"the pod asks for {readable(name, asked)} of {name}; a node of {group.name}"
            f" ({group.instance_type}) has {readable(name, free)} left beside the system's own pods",
            f"Ask for {readable(name, free)} or less, or choose a larger instance type.",
        )


def _too_many(pod: PodOf, groups: Sequence[NodeGroup]) -> Iterator[Fault]:
    room = sum(group.count * _pods_a_node(pod, group) for group in groups)
    if pod.replicas > room:
        where = ", ".join(f"{group.count} nodes of {group.name}" for group in groups)
        yield Fault(
            pod.path.removesuffix(".template") + (".replicas" if pod.is_ray else ""),
            f"{pod.replicas} pods, and {where} have room for {room}",
            f"Lower it to {room}, or raise the group's instance_count.",
        )


def _pods_a_node(pod: PodOf, group: NodeGroup) -> int:
    if _keeps_apart(pod):
        return 1
    free = _free(group)
    shares = [
        floor(free[name] / amount) for name, amount in requests_of(pod).items() if amount and name in free
    ]
    return min(shares, default=group.max_pods)


def _keeps_apart(pod: PodOf) -> bool:
    """The pod has an anti-affinity to its own kind on one node."""
    affinity = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
        if term.get("topologyKey") == "kubernetes.io/hostname" and labels.items() <= pod.labels.items():
            return True
    return False


def _gpus_where_there_are_none(pod: PodOf, groups: Sequence[NodeGroup]) -> Iterator[Fault]:
    """HyperPod's runtime hands GPUs to any image that names them, as CUDA images do, and fails if none."""
    if not pod.is_ray or any(group.gpus for group in groups):
        return
    for path, container in pod.containers():
        values = {variable["name"]: variable.get("value") for variable in container.get("env") or []}
        if values.get("NVIDIA_VISIBLE_DEVICES") != "void":
            yield Fault(
                f"{path}.env",
                f"the pod lands on {groups[0].name}, which has no GPU, and an image that asks for GPUs by"
                " NVIDIA_VISIBLE_DEVICES cannot start there",
                "Set NVIDIA_VISIBLE_DEVICES to void.",
            )


def readable(name: str, amount: Fraction) -> str:
    if name == "memory":
        return f"{floor(amount / _BYTES_PER_MIB / MIB_PER_GIB)}Gi"
    return f"{float(amount):g}"
