"""The Kubernetes side of the account: clusters, who may enter them, and what the stub tools did there.

State lives in files, because the stub `aws`, `kubectl` and `helm` that custom resources run are processes of
their own. The stubs keep what an API server keeps: namespaces before their objects, CRDs before custom
resources, no second object of a name, nobody without an access entry, nothing at all without a cluster.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.emulated.account import Account, Resource


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """The clusters of the account, each a JSON file in `folder`."""

    folder: Path
    account: Account

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def calls(self) -> list[dict[str, Any]]:
        """Every kubectl and helm call so far: tool, arguments, and the objects it was given."""
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def state(self, cluster: str) -> dict[str, Any]:
        """What is in a live cluster."""
        state: dict[str, Any] = json.loads(self._file(cluster).read_text())
        return state

    def create_cluster(self, resource: Resource) -> None:
        """An empty cluster that nobody may enter yet."""
        namespaces: dict[str, Any] = {f"Namespace//{name}": {} for name in ("default", "kube-system")}
        self._write(resource.identity.ref, {"callers": [], "nodes": 0, "objects": namespaces, "releases": {}})

    def delete_cluster(self, resource: Resource) -> None:
        """The cluster goes with everything in it."""
        self._file(resource.identity.ref).unlink()

    def admit(self, resource: Resource) -> None:
        """An access entry lets its principal in."""
        cluster = resource.properties["ClusterName"]
        state = self.state(cluster)
        state["callers"].append(resource.properties["PrincipalArn"])
        self._write(cluster, state)

    def expel(self, resource: Resource) -> None:
        """Without its access entry the principal is a stranger again."""
        cluster = resource.properties["ClusterName"]
        if self._file(cluster).exists():
            state = self.state(cluster)
            state["callers"].remove(resource.properties["PrincipalArn"])
            self._write(cluster, state)

    def set_nodes(self, hyperpod: Resource, count: int) -> None:
        """Instances of a HyperPod cluster joined or left."""
        arn = hyperpod.properties["Orchestrator"]["Eks"]["ClusterArn"]
        for cluster in self.account.of_type("AWS::EKS::Cluster"):
            if cluster.identity.attributes["Arn"] == arn:
                self._write(cluster.identity.ref, {**self.state(cluster.identity.ref), "nodes": count})

    def _file(self, cluster: str) -> Path:
        return self.folder / f"{cluster}.json"

    def _write(self, cluster: str, state: dict[str, Any]) -> None:
        self._file(cluster).write_text(json.dumps(state))
