"""What the API server refuses although no schema says so: names, labels, modes, protocols and sizes."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from k8s.validation.findings import Fault, Manifest, every_value, join_path
from k8s.validation.pod_rules import PROTOCOLS, one_of

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL_NAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_LABEL_FIELDS = {"labels", "matchLabels", "nodeSelector"}
_NAMED_BY_LABEL = {"Namespace", "Service"}
_FREELY_NAMED = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
_CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
}
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_MAX_DATA_BYTES = 2**20
_MAX_OBJECT_BYTES = 1_500_000
_MAX_ANNOTATION_BYTES = 256 * 1024
_LAST_APPLIED_BYTES = 262_144
"""`kubectl apply` keeps the whole manifest in an annotation, which must stay below this."""


def object_faults(manifest: Manifest) -> Iterator[Fault]:
    """Faults that can be seen in one manifest alone."""
    for rule in (_names, _labels, _size):
        yield from rule(manifest)
    yield from _KIND_RULES.get(manifest["kind"], _no_rule)(manifest)


# --- every kind ---------------------------------------------------------------------------------------------


def _names(manifest: Manifest) -> Iterator[Fault]:
    kind, metadata = manifest["kind"], manifest["metadata"]
    name, namespace = metadata.get("name", ""), metadata.get("namespace")
    pattern = _LABEL if kind in _NAMED_BY_LABEL else _SUBDOMAIN
    if kind not in _FREELY_NAMED and not pattern.match(name):
        yield Fault(
            "metadata.name",
            f"{name!r} is no DNS name of at most {63 if pattern is _LABEL else 253} characters",
            "Use lower-case letters, digits and hyphens, a letter or digit first and last.",
        )
    if namespace is not None and kind in _CLUSTER_SCOPED:
        yield Fault("metadata.namespace", f"a {kind} belongs to no namespace", "Remove it.")
    elif namespace is not None and not _LABEL.match(namespace):
        yield Fault(
            "metadata.namespace",
            f"{namespace!r} is no DNS label of at most 63 characters",
            "Use lower-case letters, digits and hyphens.",
        )


def _labels(manifest: Manifest) -> Iterator[Fault]:
    for path, labels in _label_maps(manifest):
        for key, value in labels.items():
            *prefix, name = key.split("/")
            if not _LABEL_NAME.match(name) or not all(_SUBDOMAIN.match(part) for part in prefix):
                yield Fault(
                    f"{path}.{key}", "is no label key", "Use [domain/]name, the name up to 63 characters."
                )
            if not _LABEL_VALUE.match(str(value)):
                yield Fault(
                    f"{path}.{key}",
                    f"{value!r} is no label value: at most 63 of letters, digits, '-', '_' and '.'",
                    "Shorten or rename it; long texts belong into annotations.",
                )


def _label_maps(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, value in every_value(manifest):
        if path and path[-1] in _LABEL_FIELDS and isinstance(value, dict):
            yield join_path(path), value


def _size(manifest: Manifest) -> Iterator[Fault]:
    annotations = manifest["metadata"].get("annotations") or {}
    sizes = {
        "data": (_bytes(manifest.get("data") or manifest.get("stringData") or {}), _MAX_DATA_BYTES),
        "metadata.annotations": (_bytes(annotations), _MAX_ANNOTATION_BYTES),
        "(root)": (_bytes(manifest), min(_MAX_OBJECT_BYTES, _LAST_APPLIED_BYTES)),
    }
    for path, (size, limit) in sizes.items():
        if size > limit:
            yield Fault(
                path,
                f"{size} bytes, and {limit} are allowed for an object that kubectl applies",
                "Keep large things in the image, on the shared file system or in an object store.",
            )
            return


def _bytes(value: Any) -> int:
    return len(json.dumps(value).encode())


# --- single kinds -------------------------------------------------------------------------------------------


def _no_rule(_manifest: Manifest) -> Iterator[Fault]:
    yield from ()


def _access_modes(manifest: Manifest) -> Iterator[Fault]:
    modes = manifest["spec"].get("accessModes") or []
    for index, mode in enumerate(modes):
        yield from one_of(f"spec.accessModes[{index}]", mode, _ACCESS_MODES)
    if not modes:
        yield Fault("spec.accessModes", "is empty", "Say ReadWriteMany for a shared file system.")


def _claim(manifest: Manifest) -> Iterator[Fault]:
    yield from _access_modes(manifest)
    requests = (manifest["spec"].get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield Fault("spec.resources.requests.storage", "is missing and required", "Give the capacity.")


def _volume(manifest: Manifest) -> Iterator[Fault]:
    yield from _access_modes(manifest)
    capacity = manifest["spec"].get("capacity") or {}
    if "storage" not in capacity:
        yield Fault("spec.capacity.storage", "is missing and required", "Give the capacity.")
    policy = manifest["spec"].get("persistentVolumeReclaimPolicy")
    yield from one_of("spec.persistentVolumeReclaimPolicy", policy, ("Retain", "Delete", "Recycle"))


def _network_policy(manifest: Manifest) -> Iterator[Fault]:
    spec = manifest["spec"]
    for index, direction in enumerate(spec.get("policyTypes") or []):
        yield from one_of(f"spec.policyTypes[{index}]", direction, ("Ingress", "Egress"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or []):
            path = f"spec.{direction}[{index}]"
            yield from _protocols(f"{path}.ports", rule.get("ports"))
            for number, peer in enumerate(rule.get(peers) or []):
                yield from _address_block(f"{path}.{peers}[{number}]", peer)


def _protocols(path: str, ports: Sequence[Mapping[str, Any]] | None) -> Iterator[Fault]:
    for index, port in enumerate(ports or ()):
        yield from one_of(f"{path}[{index}].protocol", port.get("protocol"), PROTOCOLS)


def _address_block(path: str, peer: Mapping[str, Any]) -> Iterator[Fault]:
    block = peer.get("ipBlock")
    if block is None:
        return
    try:
        ip_network(block["cidr"])
    except ValueError as error:
        yield Fault(f"{path}.ipBlock.cidr", str(error), "Give a network such as 10.0.0.0/16.")
    if "podSelector" in peer or "namespaceSelector" in peer:
        yield Fault(path, "ipBlock stands alone in a peer", "Put the selectors into a peer of their own.")


def _service(manifest: Manifest) -> Iterator[Fault]:
    kinds = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
    yield from one_of("spec.type", manifest["spec"].get("type"), kinds)
    yield from _protocols("spec.ports", manifest["spec"].get("ports"))


def _job(manifest: Manifest) -> Iterator[Fault]:
    policy = manifest["spec"]["template"]["spec"].get("restartPolicy", "Always")
    yield from one_of("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))


def _disruption_budget(manifest: Manifest) -> Iterator[Fault]:
    spec = manifest["spec"]
    if ("minAvailable" in spec) == ("maxUnavailable" in spec):
        yield Fault("spec", "exactly one of minAvailable and maxUnavailable is needed", "Keep one.")


_KIND_RULES: Mapping[str, Callable[[Manifest], Iterator[Fault]]] = {
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "NetworkPolicy": _network_policy,
    "Service": _service,
    "Job": _job,
    "PodDisruptionBudget": _disruption_budget,
}
