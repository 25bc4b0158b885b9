"""Custom resource: wait until HyperPod runs the nodes that were asked for, and say why when it does not.

Properties: ClusterName, InstanceGroups (name to count), TimeoutSeconds. Attribute: RunningNodes.

With continuous provisioning CloudFormation reports the cluster as created while instances still arrive. A
node counts once its status is Running: its lifecycle script and deep health checks have passed and it has
joined the Kubernetes cluster.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import boto3

EVENT_LIMIT = 20
"""Newest cluster events that are read for a failure's reason."""
REASON_LIMIT = 3000
"""Characters; CloudFormation cuts a failure's reason at about 4 kB."""
CAUSES = (
    (
        ("capacity",),
        "no capacity in this zone now: use a training plan, another network.hyperpod_zone_id, or try later",
    ),
    (("quota", "limit exceeded"), "raise the Service Quota '<type> for cluster usage' of SageMaker"),
    (("health check", "healthcheck", "efa"), "a health check failed: check the security group's self rules"),
    (("lifecycle",), "the lifecycle script failed: read its log stream under /aws/sagemaker/Clusters/"),
)
"""Words in an event, and what to do about it."""


class NodesNotReadyError(Exception):
    """The nodes did not come up; the message holds counts, messages, events and what to do."""


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Start the clock. There is nothing to create and nothing to delete."""
    properties = event["ResourceProperties"]
    deadline = time.time() + int(properties["TimeoutSeconds"])
    return {"PhysicalResourceId": f"{properties['ClusterName']}/nodes", "Data": {"Deadline": str(deadline)}}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Whether every group runs its nodes; raises NodesNotReadyError when the cluster failed or time is up."""
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    name = properties["ClusterName"]
    wanted = {group: int(count) for group, count in properties["InstanceGroups"].items()}
    nodes = list_nodes(name)
    running = Counter(node["InstanceGroupName"] for node in nodes if status_of(node) == "Running")
    print("; ".join(progress(wanted, nodes)))
    if all(running[group] >= count for group, count in wanted.items()):
        return {"IsComplete": True, "Data": {"RunningNodes": str(running.total())}}
    cluster = boto3.client("sagemaker").describe_cluster(ClusterName=name)
    if cluster["ClusterStatus"] == "Failed":
        raise NodesNotReadyError(explain(name, wanted, nodes, cluster.get("FailureMessage", "")))
    if time.time() > float(event["Data"]["Deadline"]):
        raise NodesNotReadyError(explain(name, wanted, nodes, "not all nodes run within the time allowed"))
    return {"IsComplete": False}


def list_nodes(cluster_name: str) -> list[dict[str, Any]]:
    """Summaries of all nodes."""
    pages = boto3.client("sagemaker").get_paginator("list_cluster_nodes").paginate(ClusterName=cluster_name)
    return [node for page in pages for node in page["ClusterNodeSummaries"]]


def status_of(node: Mapping[str, Any]) -> str:
    return str(node["InstanceStatus"]["Status"])


def progress(wanted: Mapping[str, int], nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Per group: how many of the asked nodes run, and the status of the others."""
    statuses = Counter((node["InstanceGroupName"], status_of(node)) for node in nodes)
    lines = []
    for group, count in wanted.items():
        others = [
            f"{n} {status}" for (name, status), n in statuses.items() if name == group and status != "Running"
        ]
        lines.append(f"{group}: {statuses[group, 'Running']} of {count} running {' '.join(others)}".rstrip())
    return lines


def explain(
    cluster_name: str, wanted: Mapping[str, int], nodes: Iterable[Mapping[str, Any]], reason: str
) -> str:
    """Counts per group, what to do about known causes, messages of nodes, newest events of the cluster."""
    nodes = list(nodes)
    messages = [
        f"{node['InstanceId']}: {node['InstanceStatus']['Message']}"
        for node in nodes
        if node["InstanceStatus"].get("Message")
    ]
    events = boto3.client("sagemaker").list_cluster_events(
        ClusterName=cluster_name, SortBy="EventTime", SortOrder="Descending", MaxResults=EVENT_LIMIT
    )["Events"]
    descriptions = [
        f"{event.get('EventLevel', '')} {event.get('InstanceGroupName', '')}: {event.get('Description', '')}"
        for event in events
    ]
    text = [reason, *progress(wanted, nodes), *remedies([reason, *messages, *descriptions])]
    return "\n".join([*text, *messages, "newest events:", *descriptions])[:REASON_LIMIT]


def remedies(texts: Iterable[str]) -> list[str]:
    """What to do about the causes that the texts mention, each once."""
    everything = " ".join(texts).lower()
    return [f"-> {remedy}" for words, remedy in CAUSES if any(word in everything for word in words)]
