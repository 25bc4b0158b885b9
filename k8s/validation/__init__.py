"""Mistakes in manifests, found before a deployment: every fault with its path, the rule and the remedy.

A deployment can report success while nothing runs, because KubeRay checks its objects only after they were
accepted and the scheduler only after that. So all of them are asked here, in layers:

- `structure`: Kubernetes' strict schemas (`core_schema`), KubeRay's with defaults and CEL (`crd_schema`)
- `operator_rules`: what the KubeRay operator would refuse
- `pod_rules`, `pod_security`: the pods that KubeRay would create, as the API server would judge them
- `fit`: whether the scheduler finds a node for each
- `object_rules`, `set_rules`: names, labels, sizes, and objects that contradict each other

Layers that read meaning run on manifests whose structure is sound.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from k8s.props import NodeGroup
from k8s.validation import crds
from k8s.validation.findings import Fault, Finding, Manifest, ManifestsRefused, name_of
from k8s.validation.fit import fit_faults
from k8s.validation.object_rules import object_faults
from k8s.validation.operator_rules import operator_faults
from k8s.validation.pod_rules import pod_faults
from k8s.validation.pod_security import pod_security_faults, required_level
from k8s.validation.pods import pods_of
from k8s.validation.set_rules import gpu_findings, set_findings
from k8s.validation.structure import RAY_GROUP, structural_faults

__all__ = ["Fault", "Finding", "Manifest", "ManifestsRefused", "refuse_faulty", "validate"]

CRDS_LEFT_OUT = (
    "KubeRay's definitions are not on this machine: the fields of RayCluster and RayJob were not checked"
    " against them, everything else was. Run `make crds` where GitHub can be reached."
)


def validate(
    manifests: Sequence[Manifest], node_groups: Sequence[NodeGroup] = (), *, has_crds: bool = True
) -> list[Finding]:
    """Every fault of the manifests. Without node groups nothing is said about whether the pods fit.

    Raises CrdsMissing when a manifest is of KubeRay and its definitions are not there, unless told so.
    """
    manifests = [_as_the_server_reads(manifest) for manifest in manifests]
    findings = list(_structural_findings(manifests, has_crds=has_crds))
    faulty = {finding.manifest for finding in findings}
    sound = [manifest for manifest in manifests if name_of(manifest) not in faulty]
    namespaces = {m["metadata"]["name"]: m["metadata"] for m in sound if m["kind"] == "Namespace"}
    for manifest in sound:
        labels = (namespaces.get(manifest["metadata"].get("namespace", "")) or {}).get("labels") or {}
        findings += _as_findings(manifest, _semantic_faults(manifest, labels, node_groups))
    if not findings:
        findings += set_findings(sound)
        findings += gpu_findings(sound, node_groups) if node_groups else ()
    return list(dict.fromkeys(findings))


def refuse_faulty(manifests: Sequence[Manifest], node_groups: Sequence[NodeGroup]) -> None:
    """Raise ManifestsRefused with every fault, if there is one.

    Where KubeRay's definitions could not be downloaded, a warning says that this layer was left out: a
    synthesis must work without a network. `python -m k8s validate`, which `make check` runs, insists on them.
    """
    has_crds = crds.at_hand()
    if not has_crds:
        warnings.warn(CRDS_LEFT_OUT, stacklevel=2)
    findings = validate(manifests, node_groups, has_crds=has_crds)
    if findings:
        raise ManifestsRefused(findings)


def _as_the_server_reads(manifest: Manifest) -> Manifest:
    """Fields that are null are as good as absent, and a generated name is a name."""
    pruned: Manifest = _without_nulls(manifest)
    metadata = pruned.get("metadata")
    if isinstance(metadata, dict) and "generateName" in metadata:
        metadata.setdefault("name", f"{metadata['generateName']}00000")
    return pruned


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _as_findings(manifest: Manifest, faults: Iterable[Fault]) -> Iterator[Finding]:
    for fault in faults:
        yield Finding(manifest=name_of(manifest), fault=fault)


def _structural_findings(manifests: Sequence[Manifest], *, has_crds: bool) -> Iterator[Finding]:
    for manifest in manifests:
        yield from _as_findings(manifest, structural_faults(manifest, has_crds=has_crds))


def _semantic_faults(
    manifest: Manifest, namespace_labels: Mapping[str, str], node_groups: Sequence[NodeGroup]
) -> Iterator[Fault]:
    yield from object_faults(manifest)
    refusals = list(operator_faults(manifest)) if manifest["apiVersion"].startswith(RAY_GROUP) else []
    # No pod comes of what the operator refuses.
    yield from refusals
    for pod in () if refusals else pods_of(manifest):
        yield from pod_faults(pod)
        yield from pod_security_faults(pod, required_level(namespace_labels, is_ray=pod.is_ray))
        if node_groups:
            yield from fit_faults(pod, node_groups)
