"""The pods that a manifest leads to, and where in the manifest each of their parts stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from k8s.operator import expand
from k8s.validation.findings import Manifest

type Json = dict[str, Any]

POD_TEMPLATES: Mapping[str, str] = {
    "Pod": "",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "ReplicaSet": "spec.template",
}
"""Where a kind of Kubernetes' own keeps its pod's template."""
_COPY_OF_RAY_CONTAINER = "wait-gcs-ready"
"""KubeRay's own init container: image, mounts and security context are those of the Ray container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOf:
    """A pod that a manifest leads to."""

    path: str
    """Of the pod or its template in the manifest; empty for a Pod itself."""
    pod: Json
    replicas: int
    is_ray: bool

    @property
    def spec(self) -> Json:
        spec: Json = self.pod.get("spec") or {}
        return spec

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = (self.pod.get("metadata") or {}).get("labels") or {}
        return labels

    def at(self, *parts: str) -> str:
        """The path of a part of the pod's spec."""
        return ".".join(part for part in (self.path, "spec", *parts) if part)

    def containers(self) -> Iterator[tuple[str, Json]]:
        """Every container of the manifest with its path, init containers first."""
        for field in ("initContainers", "containers"):
            for index, container in enumerate(self.spec.get(field) or []):
                if container["name"] != _COPY_OF_RAY_CONTAINER:
                    yield self.at(f"{field}[{index}]"), container

    def volumes(self) -> Iterator[tuple[str, Json]]:
        for index, volume in enumerate(self.spec.get("volumes") or []):
            yield self.at(f"volumes[{index}]"), volume


def pods_of(manifest: Manifest) -> Iterator[PodOf]:
    """The pods of a workload of Kubernetes or KubeRay; none for other kinds."""
    for expanded in expand(manifest):
        yield PodOf(path=expanded.path, pod=expanded.pod, replicas=expanded.replicas, is_ray=True)
    path = POD_TEMPLATES.get(manifest["kind"])
    if path is not None:
        pod = manifest
        for field in path.split(".") if path else ():
            pod = pod[field]
        yield PodOf(path=path, pod=pod, replicas=manifest["spec"].get("replicas", 1), is_ray=False)
