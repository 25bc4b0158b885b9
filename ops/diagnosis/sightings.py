"""Where a situation is looked for: each function yields a line of evidence per sighting."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ops.diagnosis.evidence import Evidence, Json

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
OPERATOR = "kuberay-operator"
WAITING_CONTAINER = "wait-gcs-ready"
LINE_CHARACTERS = 300


def in_pods(evidence: Evidence, pattern: re.Pattern[str]) -> Iterator[str]:
    """In what a pod's status says: reasons and messages of the pod, its conditions and its containers."""
    for pod in evidence.pods:
        text = next((text for text in _statements(pod.get("status", {})) if pattern.search(text)), None)
        if text is not None:
            yield f"pod {_name(pod)}: {_short(text)}"


def _statements(status: Json) -> Iterator[str]:
    yield _statement(status)
    yield from (_statement(row) for row in status.get("conditions", []) if row.get("status") == "False")
    containers = chain(status.get("initContainerStatuses", []), status.get("containerStatuses", []))
    for container in containers:
        states = (*container.get("state", {}).values(), *container.get("lastState", {}).values())
        yield from map(_statement, states)


def _statement(row: Json) -> str:
    return " ".join(filter(None, (row.get("reason"), row.get("message"))))


def in_events(evidence: Evidence, pattern: re.Pattern[str]) -> Iterator[str]:
    """In Kubernetes events; repeated ones are told once per object."""
    seen = set()
    for event in evidence.events:
        subject = f"{event['involvedObject']['kind']} {event['involvedObject']['name']}"
        if pattern.search(event.get("message", "")) and subject not in seen:
            seen.add(subject)
            yield f"{subject}: {_short(event['message'])}"


def in_logs(evidence: Evidence, pattern: re.Pattern[str]) -> Iterator[str]:
    """The first line of each pod's log that matches: later ones are often its consequences."""
    for pod, log in evidence.logs.items():
        line = next((line for line in log.splitlines() if pattern.search(line)), None)
        if line is not None:
            yield f"log of {pod}: {_short(line)}"


def in_hyperpod(evidence: Evidence, pattern: re.Pattern[str]) -> Iterator[str]:
    """In the cluster's failure message and in its events."""
    failure = evidence.hyperpod.get("FailureMessage", "")
    if pattern.search(failure):
        yield f"HyperPod cluster: {_short(failure)}"
    for event in evidence.hyperpod_events:
        if pattern.search(event.get("Description", "")):
            where = event.get("InstanceGroupName") or event["ResourceType"]
            yield f"HyperPod {where}: {_short(event['Description'])}"


def in_labels(evidence: Evidence, *, key: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """In one label of the nodes, with the fault that HyperPod notes beside it."""
    for node in evidence.nodes:
        labels = node["metadata"].get("labels", {})
        value = labels.get(key, "")
        if pattern.search(value):
            faults = [
                f"{name.rsplit('/', 1)[1]}={labels[name]}" for name in sorted(labels) if "/fault-" in name
            ]
            yield " ".join([f"node {_name(node)}: {value}", *faults])


def in_ray_jobs(evidence: Evidence, *, reasons: frozenset[str]) -> Iterator[str]:
    """In the reason that KubeRay gives for a RayJob's state."""
    for job in evidence.ray_jobs:
        status = job.get("status", {})
        if status.get("reason") in reasons:
            yield f"RayJob {_name(job)}: {status['reason']} {_short(status.get('message', ''))}".rstrip()


def missing_resource(evidence: Evidence, *, resource: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """On nodes whose instance type has the device but whose kubelet offers none."""
    for node in evidence.nodes:
        instance_type = node["metadata"].get("labels", {}).get(INSTANCE_TYPE, "")
        offered = node["status"].get("allocatable", {}).get(resource, "0")
        if pattern.search(instance_type) and offered == "0":
            yield f"node {_name(node)} ({instance_type}) offers no {resource}"


def missing_instances(evidence: Evidence) -> Iterator[str]:
    for group in evidence.hyperpod.get("InstanceGroups", []):
        current, target = group["CurrentCount"], group["TargetCount"]
        if current < target:
            yield f"instance group {group['InstanceGroupName']}: {current} of {target} instances"


def not_ready_nodes(evidence: Evidence) -> Iterator[str]:
    for node in evidence.nodes:
        ready = _condition(node, "Ready")
        if ready.get("status") != "True":
            yield f"node {_name(node)}: {_short(_statement(ready) or 'no Ready condition')}"


def not_admitted(evidence: Evidence) -> Iterator[str]:
    """A queue's workload is suspended until Kueue admits it."""
    for job in chain(evidence.ray_jobs, evidence.ray_clusters):
        queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        if queue and job["spec"].get("suspend"):
            yield f"{job['kind']} {_name(job)} waits in queue {queue}"


def waiting_for_head(evidence: Evidence) -> Iterator[str]:
    for pod in evidence.pods:
        for container in pod.get("status", {}).get("initContainerStatuses", []):
            running = container["state"].get("running")
            if container["name"] == WAITING_CONTAINER and running:
                yield f"pod {_name(pod)}: {WAITING_CONTAINER} since {running['startedAt']}"


def operator_absent(evidence: Evidence) -> Iterator[str]:
    """Only where Ray objects wait for it."""
    waiting = [*evidence.ray_jobs, *evidence.ray_clusters]
    running = any(
        OPERATOR in _name(pod) and _condition(pod, "Ready").get("status") == "True"
        for pod in evidence.operator_pods
    )
    if waiting and not running:
        yield f"{len(waiting)} Ray objects, and no ready pod of {OPERATOR}"


def stuck_deletions(evidence: Evidence) -> Iterator[str]:
    for item in chain(evidence.ray_jobs, evidence.ray_clusters):
        metadata = item["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
            since, holders = metadata["deletionTimestamp"], ", ".join(metadata["finalizers"])
            yield f"{item['kind']} {_name(item)}: being deleted since {since}, held by {holders}"


def _condition(item: Json, kind: str) -> Json:
    conditions: list[dict[str, Any]] = item.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]}..."
