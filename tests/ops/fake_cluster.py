"""A Kubernetes cluster in memory, behind the same calls of kubectl that the commands make."""

import json
from dataclasses import dataclass, field
from typing import Any

from ops.kubectl import Kubectl, KubectlError

type Manifest = dict[str, Any]

PLURALS = {"RayJob": "rayjobs.ray.io", "RayCluster": "rayclusters.ray.io", "Pod": "pods", "Secret": "secrets"}


@dataclass(frozen=True, kw_only=True)
class FakeCluster(Kubectl):
    """Keeps objects by kind and name; `files` are what `exec <pod> -- cat <path>` finds."""

    context: str | None = None
    namespace: str = "ray"
    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, manifest: Manifest) -> None:
        self.objects[PLURALS[manifest["kind"]], manifest["metadata"]["name"]] = manifest

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> str:
        assert seconds > 0
        self.calls.append(arguments)
        verb, *rest = arguments
        answer: str = getattr(self, f"_{verb}")(rest, stdin)
        return answer

    def _get(self, rest: list[str], _: str | None) -> str:
        kind = {"secret": "secrets"}.get(rest[0], rest[0])
        if rest[1] != "--output":
            if (kind, rest[1]) not in self.objects:
                raise KubectlError(f'Error from server (NotFound): {kind} "{rest[1]}" not found')
            return json.dumps(self.objects[kind, rest[1]])
        found = [item for (plural, _), item in self.objects.items() if plural == kind]
        return json.dumps({"items": [item for item in found if self._selected(item, rest)]})

    @staticmethod
    def _selected(item: Manifest, arguments: list[str]) -> bool:
        selectors = [
            argument.partition("=")[2] for argument in arguments if argument.startswith("--selector=")
        ]
        wanted = dict(pair.split("=") for selector in selectors for pair in selector.split(","))
        labels = item["metadata"].get("labels", {})
        return all(labels.get(key) == value for key, value in wanted.items())

    def _apply(self, _: list[str], stdin: str | None) -> str:
        self.add(json.loads(stdin or ""))
        return ""

    def _delete(self, rest: list[str], _: str | None) -> str:
        targets = [tuple(word.split("/")) for word in rest if "/" in word]
        if rest[0] == "pod":
            targets = [("pods", rest[1])]
        for kind, name in targets:
            self.objects.pop((kind, name), None)
        return ""

    def _wait(self, *_: object) -> str:
        return ""

    def _exec(self, rest: list[str], _: str | None) -> str:
        if rest[2] == "python":
            return self.files["progress"]
        path = rest[-1]
        if path not in self.files:
            raise KubectlError(f"cat: {path}: No such file or directory")
        return self.files[path]


def ray_job(
    name: str, *, run: str | None = None, created: str = "2026-12-01T10:00:00Z", **status: str
) -> Manifest:
    container = {"name": "ray-head", "image": "registry.example/training:1"}
    template = {"spec": {"nodeSelector": {"group": "cpu-head"}, "containers": [container]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": name,
            "namespace": "ray",
            "creationTimestamp": created,
            "uid": "u-1",
            "resourceVersion": "7",
            "finalizers": ["ray.io/rayjob-finalizer"],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "labels": {"app.kubernetes.io/part-of": "maze-grpo"},
        },
        "spec": {
            "entrypoint": f"python -m training train --run-id {run or name}",
            "jobId": "old",
            "suspend": False,
            "rayClusterSpec": {"headGroupSpec": {"template": template}},
        },
        "status": status,
    }


def head_pod(ray_cluster: str) -> Manifest:
    labels = {"ray.io/cluster": ray_cluster, "ray.io/node-type": "head"}
    return {
        "kind": "Pod",
        "metadata": {"name": f"{ray_cluster}-head", "labels": labels},
        "status": {"phase": "Running"},
    }
