"""Manifests of a small Ray workload, as the commands find them in dist/."""

from typing import Any

import pytest

from k8s.names import ALL_INTERFACES

type Manifest = dict[str, Any]


def container(*, cpu: str, gpus: int, env: list[dict[str, Any]]) -> dict[str, Any]:
    limits: dict[str, Any] = {"cpu": cpu, "memory": "420Gi"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return {"name": "ray", "image": "training:1", "resources": {"limits": limits}, "env": env}


@pytest.fixture
def ray_job() -> Manifest:
    """A head that takes no tasks and two workers of two GPUs, with one secret among their variables."""
    env: list[dict[str, Any]] = [
        {"name": "TRAINING_PROFILE", "value": "walkthrough"},
        {"name": "SHARED_DIR", "value": "/shared"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}},
    ]
    head = {
        "rayStartParams": {"dashboard-host": ALL_INTERFACES, "num-cpus": "0", "num-gpus": "0"},
        "template": {"spec": {"containers": [container(cpu="60", gpus=0, env=env)]}},
    }
    workers = {
        "groupName": "workers",
        "replicas": 2,
        "rayStartParams": {},
        "template": {"spec": {"containers": [container(cpu="44", gpus=2, env=env)]}},
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "maze-grpo", "namespace": "ray"},
        "spec": {
            "entrypoint": "python -m training train --run-id maze-grpo",
            "rayClusterSpec": {
                "rayVersion": "2.57.0",
                "authOptions": {"mode": "token", "secretName": "maze-grpo-session"},
                "headGroupSpec": head,
                "workerGroupSpecs": [workers],
            },
        },
    }
