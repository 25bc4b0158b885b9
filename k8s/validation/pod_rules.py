"""What the API server refuses in a pod, although it accepts the RayCluster that holds the pod's template."""

from collections.abc import Callable, Iterator
from typing import Any

from k8s.quantity import parse_quantity
from k8s.validation.findings import Fault
from k8s.validation.pods import Json, PodOf

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
PROTOCOLS = ("TCP", "UDP", "SCTP")
_HIGHEST_PORT = 65535


def pod_faults(pod: PodOf) -> Iterator[Fault]:
    """Faults of meaning in a pod whose structure is sound."""
    for rule in _POD_RULES:
        yield from rule(pod)
    for path, container in pod.containers():
        for container_rule in _CONTAINER_RULES:
            yield from container_rule(path, container)


def one_of(path: str, value: Any, choices: tuple[str, ...]) -> Iterator[Fault]:
    """The value, when there is one, is among the choices, which no schema lists."""
    if value is not None and value not in choices:
        listed = ", ".join(choices)
        yield Fault(path, f"{value!r} is not one of {listed}", f"Use one of: {listed}.")


# --- the pod ------------------------------------------------------------------------------------------------


def _mounts_have_volumes(pod: PodOf) -> Iterator[Fault]:
    volumes = {volume["name"] for _, volume in pod.volumes()}
    for path, container in pod.containers():
        for index, mount in enumerate(container.get("volumeMounts") or []):
            if mount["name"] not in volumes:
                yield Fault(
                    f"{path}.volumeMounts[{index}].name",
                    f"{mount['name']!r} is no volume of the pod",
                    f"Use one of {', '.join(sorted(volumes)) or 'none yet'}, or add the volume.",
                )


def _volume_names_are_unique(pod: PodOf) -> Iterator[Fault]:
    seen: set[str] = set()
    for path, volume in pod.volumes():
        if volume["name"] in seen:
            yield Fault(f"{path}.name", f"a second volume named {volume['name']!r}", "Rename one of the two.")
        seen.add(volume["name"])


def _memory_volumes_fit(pod: PodOf) -> Iterator[Fault]:
    """Pages of a memory volume count against the limit of the container that writes them."""
    sizes = {
        volume["name"]: volume["emptyDir"].get("sizeLimit")
        for _, volume in pod.volumes()
        if (volume.get("emptyDir") or {}).get("medium") == "Memory"
    }
    for path, container in pod.containers():
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        mounted = [sizes.get(mount["name"]) for mount in container.get("volumeMounts") or []]
        total = sum(parse_quantity(size) for size in mounted if size)
        if limit and total >= parse_quantity(limit) and not _is_operators_default(pod, sizes):
            yield Fault(
                f"{path}.resources.limits.memory",
                f"{limit}, and the volumes in memory that it mounts may fill all of it",
                "Give the volumes a sizeLimit well below the memory limit.",
            )


def _is_operators_default(pod: PodOf, sizes: dict[str, Any]) -> bool:
    """KubeRay itself sizes /dev/shm to the whole limit when a manifest says nothing."""
    return pod.is_ray and set(sizes) == {"shared-mem"}


def _tolerations_are_sound(pod: PodOf) -> Iterator[Fault]:
    for index, toleration in enumerate(pod.spec.get("tolerations") or []):
        path = pod.at(f"tolerations[{index}]")
        yield from one_of(f"{path}.effect", toleration.get("effect") or None, _EFFECTS)
        yield from one_of(f"{path}.operator", toleration.get("operator") or None, ("Exists", "Equal"))
        tolerates_any = toleration.get("operator") == "Exists"
        if tolerates_any and toleration.get("value"):
            yield Fault(f"{path}.value", "Exists takes no value", "Remove value, or use Equal.")
        if not toleration.get("key") and not tolerates_any:
            yield Fault(f"{path}.key", "a toleration without a key needs operator Exists", "Add the key.")


def _restart_policy(pod: PodOf) -> Iterator[Fault]:
    yield from one_of(pod.at("restartPolicy"), pod.spec.get("restartPolicy"), _RESTART_POLICIES)


def _container_names_are_unique(pod: PodOf) -> Iterator[Fault]:
    seen: set[str] = set()
    for path, container in pod.containers():
        if container["name"] in seen:
            yield Fault(f"{path}.name", f"a second container {container['name']!r}", "Rename one of the two.")
        seen.add(container["name"])


_POD_RULES: tuple[Callable[[PodOf], Iterator[Fault]], ...] = (
    _mounts_have_volumes,
    _volume_names_are_unique,
    _memory_volumes_fit,
    _tolerations_are_sound,
    _restart_policy,
    _container_names_are_unique,
)


# --- its containers -----------------------------------------------------------------------------------------


def _limits_cover_requests(path: str, container: Json) -> Iterator[Fault]:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in requests.items():
        if name in limits and parse_quantity(limits[name]) < parse_quantity(amount):
            yield Fault(
                f"{path}.resources.limits.{name}",
                f"{limits[name]} is less than the request of {amount}",
                "Raise the limit or lower the request.",
            )


def _devices_are_whole_and_limited(path: str, container: Json) -> Iterator[Fault]:
    """GPUs and network cards cannot be overcommitted: a request without an equal limit is refused."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in sorted(name for name in {**limits, **requests} if "/" in name):
        limit, request = limits.get(name), requests.get(name)
        if limit is None or (request is not None and parse_quantity(limit) != parse_quantity(request)):
            yield Fault(
                f"{path}.resources.limits.{name}",
                f"{limit or 'missing'}, and a device's limit must equal its request of {request}",
                f"Set limits.{name} to {request}.",
            )
        elif parse_quantity(limit).denominator != 1:
            yield Fault(
                f"{path}.resources.limits.{name}",
                f"{limit} is no whole number of devices",
                "Give a whole number.",
            )


def _ports_are_sound(path: str, container: Json) -> Iterator[Fault]:
    for index, port in enumerate(container.get("ports") or []):
        here = f"{path}.ports[{index}]"
        yield from one_of(f"{here}.protocol", port.get("protocol"), PROTOCOLS)
        if not 1 <= port["containerPort"] <= _HIGHEST_PORT:
            yield Fault(f"{here}.containerPort", f"{port['containerPort']} is no port", "Give 1 to 65535.")


def _mount_paths_are_unique(path: str, container: Json) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount["mountPath"] in seen:
            yield Fault(
                f"{path}.volumeMounts[{index}].mountPath",
                f"{mount['mountPath']} is mounted twice",
                "Remove one of the two mounts.",
            )
        seen.add(mount["mountPath"])


def _pull_policy(path: str, container: Json) -> Iterator[Fault]:
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)


_CONTAINER_RULES: tuple[Callable[[str, Json], Iterator[Fault]], ...] = (
    _limits_cover_requests,
    _devices_are_whole_and_limited,
    _ports_are_sound,
    _mount_paths_are_unique,
    _pull_policy,
)
