"""Whether a manifest has the structure that later layers rely on: schemas, and what they leave open."""

from collections.abc import Iterator

from k8s.quantity import parse_quantity
from k8s.validation.core_schema import core_faults
from k8s.validation.crd_schema import custom_resource_faults
from k8s.validation.crds import PLURALS
from k8s.validation.findings import Fault, Manifest, every_value, join_path
from k8s.validation.pods import POD_TEMPLATES

RAY_GROUP = "ray.io/"
_IDENTITY = {"apiVersion": str, "kind": str, "metadata": dict}
_AMOUNTS = {("resources", "limits"), ("resources", "requests"), ("spec", "capacity"), ("spec", "hard")}
"""Fields whose values are quantities; Kubernetes' own schemas allow any text there."""

_NEED_SPEC = {
    *PLURALS,
    *POD_TEMPLATES,
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "ResourceQuota",
    "Service",
}
"""Kinds that mean nothing without a spec, although their schemas let it be absent."""
_TEMPLATES = {"template", "submitterPodTemplate"}


def structural_faults(manifest: Manifest, *, has_crds: bool) -> Iterator[Fault]:
    """Faults that keep the meaning of a manifest from being judged.

    Without KubeRay's definitions nothing is said about the fields of its objects.
    """
    for field, wanted in _IDENTITY.items():
        if not isinstance(manifest.get(field), wanted):
            needed = ", ".join(_IDENTITY)
            yield Fault(field, f"is missing or no {wanted.__name__}", f"Every object needs {needed}.")
            return
    if "name" not in manifest["metadata"]:
        yield Fault("metadata.name", "is missing and required", "Name the object.")
    faults = [*_schema_faults(manifest, has_crds=has_crds), *_missing_specs(manifest)]
    yield from faults or _faults_beside_the_schema(manifest)


def _schema_faults(manifest: Manifest, *, has_crds: bool) -> Iterator[Fault]:
    if not manifest["apiVersion"].startswith(RAY_GROUP):
        yield from core_faults(manifest)
    elif has_crds:
        yield from custom_resource_faults(manifest)


def _missing_specs(manifest: Manifest) -> Iterator[Fault]:
    if manifest["kind"] not in _NEED_SPEC:
        return
    for path, value in every_value(manifest):
        holds_spec = not path or path[-1] in _TEMPLATES
        if holds_spec and isinstance(value, dict) and not value.get("spec"):
            yield Fault(join_path((*path, "spec")), "is missing and required", "Say what is to run or to be.")


def _faults_beside_the_schema(manifest: Manifest) -> Iterator[Fault]:
    for path, value in every_value(manifest):
        if value is None:
            yield Fault(join_path(path), "is null in a list", "Remove the item.")
        if path[-1:] == ("containers",) and value == []:
            yield Fault(join_path(path), "is empty", "Add a container; for Ray, its container is the first.")
        if path[-3:-1] in _AMOUNTS or path[-2:] == ("emptyDir", "sizeLimit"):
            yield from _amount_faults(join_path(path), value)


def _amount_faults(path: str, amount: str | int | float) -> Iterator[Fault]:
    try:
        parse_quantity(amount)
    except ValueError as error:
        yield Fault(path, str(error), "Write it like 500m, 2 or 440Gi.")
