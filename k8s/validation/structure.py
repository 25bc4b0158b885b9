"""Whether a manifest has the structure that later layers rely on: schemas, and what they leave open."""

from collections.abc import Iterator

from k8s.quantity import parse_quantity
from k8s.validation.core_schema import core_faults
from k8s.validation.crd_schema import custom_resource_faults
from k8s.validation.findings import Fault, Manifest, every_value, join_path

RAY_GROUP = "ray.io/"
_IDENTITY = {"apiVersion": str, "kind": str, "metadata": dict}
_AMOUNTS = {("resources", "limits"), ("resources", "requests"), ("spec", "capacity"), ("spec", "hard")}
"""Fields whose values are quantities; Kubernetes' own schemas allow any text there."""


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
    is_ray = manifest["apiVersion"].startswith(RAY_GROUP)
    faults = list(core_faults(manifest)) if not is_ray else []
    if is_ray and has_crds:
        faults = list(custom_resource_faults(manifest))
    yield from faults or _faults_beside_the_schema(manifest)


def _faults_beside_the_schema(manifest: Manifest) -> Iterator[Fault]:
    for path, value in every_value(manifest):
        if path[-1:] == ("containers",) and value == []:
            yield Fault(join_path(path), "is empty", "Add a container; for Ray, its container is the first.")
        if path[-3:-1] in _AMOUNTS or path[-2:] == ("emptyDir", "sizeLimit"):
            yield from _amount_faults(join_path(path), value)


def _amount_faults(path: str, amount: str | int | float) -> Iterator[Fault]:
    try:
        parse_quantity(amount)
    except ValueError as error:
        yield Fault(path, str(error), "Write it like 500m, 2 or 440Gi.")
