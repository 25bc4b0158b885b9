"""Faults that only manifests that are applied together show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8s.quantity import parse_quantity
from k8s.validation.findings import Fault, Finding, Manifest, name_of
from k8s.validation.pods import pods_of


def set_findings(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """Objects that contradict each other, or miss each other."""
    for rule in (_duplicates, _claims_and_volumes, _missing_references):
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
    """What a pod names is there, as far as the set says: it is whole for a namespace that it creates."""
    created = {m["metadata"]["name"] for m in manifests if m["kind"] == "Namespace"}
    there = {(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests}
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        if namespace not in created:
            continue
        for path, kind, name in _references(manifest):
            if (kind, namespace, name) not in there:
                fault = Fault(
                    path, f"there is no {kind} {name!r} in {namespace}", f"Add it, or correct {name}."
                )
                yield Finding(manifest=name_of(manifest), fault=fault)


def _references(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    for pod in pods_of(manifest):
        account = pod.spec.get("serviceAccountName")
        if account:
            yield pod.at("serviceAccountName"), "ServiceAccount", account
        for path, volume in pod.volumes():
            claim = volume.get("persistentVolumeClaim")
            if claim:
                yield f"{path}.persistentVolumeClaim.claimName", "PersistentVolumeClaim", claim["claimName"]
