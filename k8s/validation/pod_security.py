"""Pod Security Standards, levels "baseline" and "restricted", as far as Linux pods can break them.

A namespace says by labels which level it enforces and at which it warns. Ray pods of ours have to meet the
stricter of the two; other pods the enforced one.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from k8s.validation.findings import Fault
from k8s.validation.pods import Json, PodOf

LABEL = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
_RESTRICTED_CAPABILITIES = {"NET_BIND_SERVICE"}
_RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def required_level(namespace_labels: Mapping[str, str], *, is_ray: bool) -> str:
    """The level that a pod has to meet; where the namespace says nothing, none."""
    modes = ("enforce", "warn", "audit") if is_ray else ("enforce",)
    levels = [namespace_labels.get(LABEL + mode, "") for mode in modes]
    known = [_LEVELS.index(level) for level in levels if level in _LEVELS]
    return _LEVELS[max(known, default=0)]


def pod_security_faults(pod: PodOf, level: str) -> Iterator[Fault]:
    """What keeps a pod from meeting a level."""
    if level != "privileged":
        yield from _baseline_pod_faults(pod)
    if level == "restricted":
        yield from _restricted_volume_faults(pod)
    for path, container in pod.containers():
        for rule in _CONTAINER_RULES[level]:
            yield from rule(path, container, pod.spec.get("securityContext") or {})


def _baseline_pod_faults(pod: PodOf) -> Iterator[Fault]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field):
            yield Fault(pod.at(field), "shares the node's namespace (baseline)", f"Remove {field}.")
    for path, volume in pod.volumes():
        if "hostPath" in volume:
            yield Fault(
                f"{path}.hostPath", "mounts the node's disk (baseline)", "Use another kind of volume."
            )


def _baseline_container_faults(path: str, container: Json, _pod_context: Json) -> Iterator[Fault]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield Fault(f"{path}.securityContext.privileged", "is on (baseline)", "Remove it.")
    added = set((context.get("capabilities") or {}).get("add") or ())
    if added - _BASELINE_CAPABILITIES:
        yield Fault(
            f"{path}.securityContext.capabilities.add",
            f"{', '.join(sorted(added - _BASELINE_CAPABILITIES))} is beyond baseline",
            "Remove it.",
        )
    for index, port in enumerate(container.get("ports") or []):
        if port.get("hostPort"):
            yield Fault(
                f"{path}.ports[{index}].hostPort", "takes a port of the node (baseline)", "Remove it."
            )


def _restricted_volume_faults(pod: PodOf) -> Iterator[Fault]:
    for path, volume in pod.volumes():
        kinds = set(volume) - {"name"} - _RESTRICTED_VOLUMES
        if kinds:
            yield Fault(f"{path}", f"{', '.join(kinds)} is no volume of level restricted", "Use a claim.")


def _no_escalation(path: str, container: Json, _pod_context: Json) -> Iterator[Fault]:
    context = container.get("securityContext") or {}
    if context.get("allowPrivilegeEscalation") is not False:
        yield Fault(
            f"{path}.securityContext.allowPrivilegeEscalation",
            "must be false at level restricted",
            "Set it to false.",
        )


def _no_capabilities(path: str, container: Json, _pod_context: Json) -> Iterator[Fault]:
    capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
    added = set(capabilities.get("add") or ()) - _RESTRICTED_CAPABILITIES
    if "ALL" not in (capabilities.get("drop") or ()) or added:
        yield Fault(
            f"{path}.securityContext.capabilities",
            "must drop ALL and add at most NET_BIND_SERVICE at level restricted",
            "Set drop: [ALL] and remove what is added.",
        )


def _no_root(path: str, container: Json, pod_context: Json) -> Iterator[Fault]:
    context = container.get("securityContext") or {}
    user: Any = context.get("runAsUser", pod_context.get("runAsUser"))
    if context.get("runAsNonRoot", pod_context.get("runAsNonRoot")) is not True or user == 0:
        yield Fault(
            f"{path}.securityContext.runAsNonRoot",
            "must be true, with another user than 0, at level restricted",
            "Set runAsNonRoot: true and runAsUser in the pod's securityContext.",
        )


def _seccomp(path: str, container: Json, pod_context: Json) -> Iterator[Fault]:
    context = container.get("securityContext") or {}
    profile = context.get("seccompProfile") or pod_context.get("seccompProfile") or {}
    if profile.get("type") not in {"RuntimeDefault", "Localhost"}:
        yield Fault(
            f"{path}.securityContext.seccompProfile",
            "must be RuntimeDefault or Localhost at level restricted",
            "Set seccompProfile: {type: RuntimeDefault} in the pod's securityContext.",
        )


type _ContainerRule = Callable[[str, Json, Json], Iterator[Fault]]

_RESTRICTED: tuple[_ContainerRule, ...] = (_no_escalation, _no_capabilities, _no_root, _seccomp)
_CONTAINER_RULES: Mapping[str, tuple[_ContainerRule, ...]] = {
    "privileged": (),
    "baseline": (_baseline_container_faults,),
    "restricted": (_baseline_container_faults, *_RESTRICTED),
}
