"""The KubeRay operator's own rules, which it applies only after a manifest was accepted.

KubeRay ships no admission webhook: a RayCluster that breaks one of these is created, and nothing runs.
"""

import re
from collections.abc import Iterator

from k8s.operator import cluster_spec_of
from k8s.validation.findings import Fault, Manifest
from k8s.validation.ray_cluster_rules import Cluster, cluster_faults
from k8s.validation.ray_job_rules import Json, job_faults

_DNS_1035_LABEL = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
_MAX_NAME = {"RayCluster": 53, "RayJob": 47, "RayService": 47, "RayCronJob": 36}
"""KubeRay appends suffixes and stays within 63 characters."""
_CRON_FIELDS = 5


def operator_faults(manifest: Manifest) -> Iterator[Fault]:
    """What the operator would refuse in a RayCluster, RayJob, RayService or RayCronJob."""
    kind, spec, metadata = manifest["kind"], manifest["spec"], manifest["metadata"]
    yield from _name_faults(kind, metadata["name"])
    if kind == "RayCronJob":
        yield from _schedule_faults(spec)
        yield from job_faults(spec["jobTemplate"], "spec.jobTemplate")
    if kind == "RayJob":
        yield from job_faults(spec, "spec")
    found = cluster_spec_of(manifest)
    if found:
        path, cluster = found
        yield from cluster_faults(
            Cluster(
                spec=cluster,
                path=path,
                annotations=metadata.get("annotations") or {},
                is_made_for_another=kind != "RayCluster",
            )
        )


def _name_faults(kind: str, name: str) -> Iterator[Fault]:
    limit = _MAX_NAME[kind]
    if len(name) > limit:
        yield Fault(
            "metadata.name",
            f"{name!r} has {len(name)} characters; KubeRay appends suffixes and allows a {kind} {limit}",
            f"Shorten it to {limit} characters.",
        )
    if not _DNS_1035_LABEL.match(name):
        yield Fault(
            "metadata.name",
            f"{name!r} is no DNS label that starts with a letter",
            "Use lower-case letters, digits and hyphens, a letter first.",
        )


def _schedule_faults(spec: Json) -> Iterator[Fault]:
    schedule = spec.get("schedule", "")
    if "TZ" in schedule:
        yield Fault("spec.schedule", "holds a time zone", "Use the field timeZone.")
    elif len(schedule.split()) != _CRON_FIELDS and not schedule.startswith("@"):
        yield Fault(
            "spec.schedule", f"{schedule!r} has not five fields", "Write `minute hour day month weekday`."
        )
