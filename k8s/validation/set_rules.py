"""Faults that only manifests that are applied together show."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from k8s import names
from k8s.operator import cluster_spec_of
from k8s.props import NodeGroup
from k8s.quantity import parse_quantity
from k8s.validation.findings import Fault, Finding, Manifest, name_of
from k8s.validation.fit import Amounts, readable, requests_of
from k8s.validation.pods import PodOf, pods_of

_BUILT_IN = {None, "", "default", "system-cluster-critical", "system-node-critical"}
_NAMED_BY_PODS = {"serviceAccountName": "ServiceAccount", "priorityClassName": "PriorityClass"}


def set_findings(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """Objects that contradict each other, or miss each other."""
    for rule in (_duplicates, _claims_and_volumes, _missing_references, _quotas):
        yield from rule(manifests)


def _duplicates(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    seen: set[str] = set()
    for manifest in manifests:
        name = f"{manifest['apiVersion']} {name_of(manifest)}"
        if name in seen:
            fault = Fault("metadata.name", "a second object of this kind and name", "Rename one of the two.")
            yield Finding(manifest=name_of(manifest), fault=fault)
        seen.add(name)


def _claims_and_volumes(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    volumes = {m["metadata"]["name"]: m["spec"] for m in manifests if m["kind"] == "PersistentVolume"}
    for claim in manifests:
        if claim["kind"] == "PersistentVolumeClaim" and claim["spec"].get("volumeName") in volumes:
            for fault in _binding_faults(claim, volumes[claim["spec"]["volumeName"]]):
                yield Finding(manifest=name_of(claim), fault=fault)


def _binding_faults(claim: Manifest, volume: Mapping[str, Any]) -> Iterator[Fault]:
    """Why a claim would stay Pending beside the very volume that it names."""
    spec, metadata = claim["spec"], claim["metadata"]
    if spec.get("storageClassName") != volume.get("storageClassName"):
        yield Fault(
            "spec.storageClassName",
            f"{spec.get('storageClassName')!r}, and the volume has {volume.get('storageClassName')!r}: unset"
            " means the cluster's default class",
            'Write storageClassName: "" on both.',
        )
    asked, offered = spec["resources"]["requests"]["storage"], volume["capacity"]["storage"]
    if parse_quantity(asked) > parse_quantity(offered):
        yield Fault(
            "spec.resources.requests.storage", f"{asked}, and the volume has {offered}", "Let both agree."
        )
    if set(spec["accessModes"]) - set(volume["accessModes"]):
        yield Fault(
            "spec.accessModes",
            f"{spec['accessModes']}, and the volume offers {volume['accessModes']}",
            "Let both agree.",
        )
    bound = volume.get("claimRef")
    mine = {"name": metadata["name"], "namespace": metadata.get("namespace")}
    if bound and {key: bound.get(key) for key in mine} != mine:
        yield Fault(
            "spec.volumeName",
            f"the volume is reserved for {bound.get('namespace')}/{bound.get('name')}",
            "Name this claim in the volume's claimRef.",
        )


def _missing_references(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """What an object names is there, as far as the set says: it is whole for a namespace that it creates."""
    created = {m["metadata"]["name"] for m in manifests if m["kind"] == "Namespace"}
    there = {identity for manifest in manifests for identity in _identities(manifest)}
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace in created:
            for path, kind, name in _references(manifest):
                if (kind, namespace, name) not in there and (kind, None, name) not in there:
                    fault = Fault(path, f"there is no {kind} {name!r}", f"Add it, or correct {name}.")
                    yield Finding(manifest=name_of(manifest), fault=fault)


def _identities(manifest: Manifest) -> Iterator[tuple[str, str | None, str]]:
    """The object itself, and the Secret with a token that KubeRay makes for a cluster that names none."""
    metadata = manifest["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    yield manifest["kind"], namespace, name
    if manifest["kind"] == "RayCluster":
        options = manifest["spec"].get("authOptions") or {}
        if options.get("mode") == "token" and not options.get("secretName"):
            yield "Secret", namespace, name


def _references(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Path, kind and name of what the object needs beside it."""
    for pod in pods_of(manifest):
        yield from _named_by(pod)
    path, spec = cluster_spec_of(manifest) or ("", {})
    secret = (spec.get("authOptions") or {}).get("secretName")
    if secret:
        yield f"{path}.authOptions.secretName", "Secret", secret


def _named_by(pod: PodOf) -> Iterator[tuple[str, str, str]]:
    for field, kind in _NAMED_BY_PODS.items():
        if pod.spec.get(field) not in _BUILT_IN:
            yield pod.at(field), kind, pod.spec[field]
    for path, volume in pod.volumes():
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            yield f"{path}.persistentVolumeClaim.claimName", "PersistentVolumeClaim", claim


def _quotas(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """A pod beyond the namespace's quota is never created, and only an event of its owner says so."""
    for quota in (m for m in manifests if m["kind"] == "ResourceQuota"):
        namespace = quota["metadata"].get("namespace")
        for manifest in (m for m in manifests if m["metadata"].get("namespace") == namespace):
            for fault in _quota_faults(quota["spec"].get("hard") or {}, manifest):
                yield Finding(manifest=name_of(quota), fault=fault)


def _quota_faults(hard: Mapping[str, Any], manifest: Manifest) -> Iterator[Fault]:
    for name, amount in _requests_of(manifest).items():
        limit = hard.get(f"requests.{name}")
        if limit is not None and amount > parse_quantity(limit):
            yield Fault(
                f"spec.hard.requests.{name}",
                f"{limit}, and the pods of {name_of(manifest)} ask for {readable(name, amount)}",
                "Raise the quota, or ask for less.",
            )


def _requests_of(manifest: Manifest) -> Amounts:
    """Of all pods of an object together."""
    total: Amounts = {}
    for pod in pods_of(manifest):
        for name, amount in requests_of(pod).items():
            total[name] = total.get(name, Fraction(0)) + pod.replicas * amount
    return total


def gpu_findings(manifests: Sequence[Manifest], groups: Sequence[NodeGroup]) -> Iterator[Finding]:
    """What runs at the same time finds GPUs enough; suspended objects ask for none."""
    there_are = sum(group.count * group.gpus for group in groups)
    asked = {
        name_of(manifest): _requests_of(manifest).get(names.GPU, Fraction(0))
        for manifest in manifests
        if not (manifest.get("spec") or {}).get("suspend")
    }
    holders = [name for name, amount in asked.items() if amount]
    if len(holders) > 1 and sum(asked.values()) > there_are:
        fault = Fault(
            "spec.suspend",
            f"unset, and {' and '.join(holders)} together ask for {sum(asked.values())} GPUs of {there_are}",
            "Suspend all but one of them.",
        )
        yield Finding(manifest=holders[-1], fault=fault)
