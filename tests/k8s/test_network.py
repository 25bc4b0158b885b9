"""Who reaches whom in the namespace, read from the rendered network policies.

`allowed` judges one direction of a flow as Kubernetes does: a pod that a policy selects for a direction may
do only what some policy allows. Addresses stand for everything outside of the cluster.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

type Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class End:
    """A pod, by its namespace and labels, or an address."""

    namespace: str = "ray"
    labels: dict[str, str] = field(default_factory=dict)
    address: str | None = None


RAY = End(labels={"ray.io/is-ray-node": "yes"})
SUBMITTER = End(labels={"app.kubernetes.io/component": "submitter"})
STRANGER_INSIDE = End()
OPERATOR = End(namespace="kuberay-system")
SCRAPER = End(namespace="hyperpod-observability")
STRANGER_OUTSIDE = End(namespace="default")
DNS = End(namespace="kube-system")
INTERNET = End(address="203.0.113.7")
POD_IDENTITY = End(address="169.254.170.23")
INSTANCE_METADATA = End(address="169.254.169.254")


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def is_peer(peer: Manifest, end: End, namespace: str) -> bool:
    if "ipBlock" in peer:
        return end.address is not None and ip_address(end.address) in ip_network(peer["ipBlock"]["cidr"])
    if "namespaceSelector" in peer:
        return selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": end.namespace})
    return end.namespace == namespace and selects(peer["podSelector"], end.labels)


def allowed(policies: list[Manifest], pod: End, other: End, port: int, direction: str) -> bool:
    """Whether the policies of the pod's namespace let it take part in the flow."""
    if pod.namespace != "ray" or pod.address:
        return True
    peers = {"Ingress": "from", "Egress": "to"}[direction]
    binding = [
        policy["spec"]
        for policy in policies
        if direction in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], pod.labels)
    ]
    rules = [rule for spec in binding for rule in spec.get(direction.lower(), [])]
    return not binding or any(
        any(is_peer(peer, other, "ray") for peer in rule[peers])
        and (not rule.get("ports") or port in [item["port"] for item in rule["ports"]])
        for rule in rules
    )


@pytest.fixture(scope="module")
def policies(rendered: dict[str, list[Manifest]]) -> list[Manifest]:
    return [item for item in rendered["namespace"] if item["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize(
    ("source", "target", "port", "passes"),
    [
        pytest.param(RAY, RAY, 6379, True, id="workers reach the head"),
        pytest.param(RAY, RAY, 15000, True, id="Ray's own ports are many"),
        pytest.param(RAY, DNS, 53, True, id="names are resolved"),
        pytest.param(RAY, INTERNET, 443, True, id="model hub and AWS over HTTPS"),
        pytest.param(RAY, INTERNET, 80, False, id="no plain HTTP"),
        pytest.param(RAY, POD_IDENTITY, 80, True, id="credentials by pod identity"),
        pytest.param(RAY, INSTANCE_METADATA, 80, False, id="no instance metadata"),
        pytest.param(RAY, SCRAPER, 4317, True, id="metrics are pushed to the collector"),
        pytest.param(SCRAPER, RAY, 8080, True, id="metrics are scraped"),
        pytest.param(SCRAPER, RAY, 8265, False, id="the scraper has no business on the dashboard"),
        pytest.param(SUBMITTER, RAY, 8265, True, id="jobs are submitted"),
        pytest.param(SUBMITTER, RAY, 6379, False, id="the submitter does not join the cluster"),
        pytest.param(SUBMITTER, DNS, 53, True, id="the submitter finds the head"),
        pytest.param(SUBMITTER, INTERNET, 443, False, id="the submitter stays inside"),
        pytest.param(OPERATOR, RAY, 8265, True, id="the operator asks for the job's state"),
        pytest.param(STRANGER_INSIDE, RAY, 8265, False, id="no other pod of the namespace"),
        pytest.param(STRANGER_OUTSIDE, RAY, 8265, False, id="no pod of another namespace"),
        pytest.param(STRANGER_OUTSIDE, RAY, 6379, False, id="nobody else joins the cluster"),
        pytest.param(RAY, STRANGER_OUTSIDE, 80, False, id="Ray reaches no other pods"),
    ],
)
def test_flow(policies: list[Manifest], source: End, target: End, port: int, *, passes: bool) -> None:
    leaves = allowed(policies, source, target, port, "Egress")
    arrives = allowed(policies, target, source, port, "Ingress")
    assert (leaves and arrives) is passes
