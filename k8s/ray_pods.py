"""The pod templates of Ray's head, workers and submitter, as the plain structures that KubeRay's CRDs take.

Plain, because cdk8s has no types for them: `cdk8s import` of these CRDs makes a module of 6 MB named `io`.
What a type would catch, the strict CRD schema in `k8s.validation` does.
"""

from typing import Any

from k8s import names
from k8s.props import NodeGroup, RayWorkload
from k8s.sizing import PodSize, head_size, worker_size
from k8s.staging import wait_container

type Json = dict[str, Any]

_SHARED_MEMORY = "shared-memory"
_RAY_LOGS = "ray-logs"
_RAY_LOGS_GIB = 100
"""Logs and spilled objects under /tmp/ray. Without a limit they fill the node's disk and evict its pods."""
_STOP_SECONDS = 60

_NO_PRIVILEGES: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_NO_GPU = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""HyperPod's container runtime injects GPUs into images that ask for all of them, as CUDA images do, and then
fails on a node without any."""


def head_template(workload: RayWorkload) -> Json:
    container: Json = {
        "name": "ray-head",
        "image": workload.image,
        "resources": _resources(head_size(workload.head)),
        "ports": [
            {"name": "gcs-server", "containerPort": names.GCS_PORT},
            {"name": "dashboard", "containerPort": names.DASHBOARD_PORT},
            {"name": "client", "containerPort": names.CLIENT_PORT},
            {"name": "metrics", "containerPort": names.METRICS_PORT},
        ],
        "env": [*_environment(workload), _NO_GPU, *_dashboard_environment(workload)],
        "volumeMounts": _volume_mounts(),
        "securityContext": _NO_PRIVILEGES,
    }
    spec = {
        **_pod_spec(workload, workload.head),
        "containers": [container],
        "volumes": _volumes(head_size(workload.head)),
    }
    if workload.staged:
        spec["initContainers"] = [wait_container(workload)]
    return {"metadata": _metadata(workload, names.HEAD_GROUP), "spec": spec}


def worker_template(workload: RayWorkload) -> Json:
    container: Json = {
        "name": "ray-worker",
        "image": workload.image,
        "resources": _resources(worker_size(workload.workers)),
        "ports": [{"name": "metrics", "containerPort": names.METRICS_PORT}],
        "env": [*_environment(workload), *_collective_environment(workload.workers)],
        "volumeMounts": _volume_mounts(),
        "securityContext": _NO_PRIVILEGES,
    }
    spec = {
        **_pod_spec(workload, workload.workers),
        "affinity": _one_a_node(workload),
        "containers": [container],
        "volumes": _volumes(worker_size(workload.workers)),
    }
    return {"metadata": _metadata(workload, names.WORKER_GROUP), "spec": spec}


def submitter_template(workload: RayWorkload) -> Json:
    """The pod that hands the entrypoint to the head and follows the log; KubeRay writes its command."""
    container: Json = {
        "name": "ray-job-submitter",
        "image": workload.image,
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "env": [_NO_GPU],
        "volumeMounts": [{"name": names.CLAIM, "mountPath": names.SHARED_DIR}],
        "securityContext": _NO_PRIVILEGES,
    }
    spec = {
        **_pod_spec(workload, workload.head),
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [_shared_volume()],
    }
    return {"metadata": _metadata(workload, "submitter"), "spec": spec}


def _metadata(workload: RayWorkload, component: str) -> Json:
    labels = {names.PART_OF_LABEL: workload.deployment, names.COMPONENT_LABEL: component}
    if workload.queue:
        labels[names.QUEUE_LABEL] = workload.queue
    return {"labels": labels}


def _pod_spec(workload: RayWorkload, group: NodeGroup) -> Json:
    """What the three kinds of pod have in common: where they run and as whom."""
    tolerations = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in group.taints
    ]
    return {
        "nodeSelector": {
            names.INSTANCE_TYPE_LABEL: group.instance_type,
            names.INSTANCE_GROUP_LABEL: group.name,
        },
        **({"tolerations": tolerations} if tolerations else {}),
        "serviceAccountName": names.SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": workload.deployment,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": names.RAY_USER_ID,
            "runAsGroup": names.RAY_GROUP_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _resources(size: PodSize) -> Json:
    """Requests equal limits: the pod is the last to be evicted, and Ray's own accounting is the kubelet's."""
    quantities = {"cpu": str(size.cpus), "memory": f"{size.memory_gib}Gi"}
    if size.gpus:
        quantities[names.GPU] = str(size.gpus)
    if size.efa_interfaces:
        quantities[names.EFA] = str(size.efa_interfaces)
    return {"requests": quantities, "limits": quantities}


def _volumes(size: PodSize) -> list[Json]:
    return [
        _shared_volume(),
        {
            "name": _SHARED_MEMORY,
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{size.shared_memory_gib}Gi"},
        },
        {"name": _RAY_LOGS, "emptyDir": {"sizeLimit": f"{_RAY_LOGS_GIB}Gi"}},
    ]


def _shared_volume() -> Json:
    return {"name": names.CLAIM, "persistentVolumeClaim": {"claimName": names.CLAIM}}


def _volume_mounts() -> list[Json]:
    return [
        {"name": names.CLAIM, "mountPath": names.SHARED_DIR},
        {"name": _SHARED_MEMORY, "mountPath": names.SHARED_MEMORY_DIR},
        {"name": _RAY_LOGS, "mountPath": names.RAY_TEMP_DIR},
    ]


def _environment(workload: RayWorkload) -> list[Json]:
    """What the job reads, on head and workers alike, since its actors run on both."""
    token = {"name": names.HUGGING_FACE_SECRET, "key": "token", "optional": True}
    return [
        {"name": "TRAINING_PROFILE", "value": workload.run.profile},
        {"name": "SHARED_DIR", "value": names.SHARED_DIR},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}},
        {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"},
        # Rules for hung jobs are posted to HyperPod's agent on the pod's own node.
        {"name": "HYPERPOD_JMA_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]


def _collective_environment(group: NodeGroup) -> list[Json]:
    """NCCL between nodes. With libfabric >= 1.18 and aws-ofi-nccl >= 1.7 the provider, the protocol and RDMA
    are found by themselves and only harmed by being set."""
    variables = [
        {"name": "NCCL_SOCKET_IFNAME", "value": "^docker,lo,veth"},
        {"name": "NCCL_DEBUG", "value": "WARN"},
    ]
    if group.efa_interfaces:
        # Huge pages would have to be requested by the pod and reserved on the node.
        variables.append({"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"})
    return variables


def _dashboard_environment(workload: RayWorkload) -> list[Json]:
    if workload.dashboards is None:
        return []
    return [
        {"name": "RAY_GRAFANA_HOST", "value": workload.dashboards.grafana_url},
        {"name": "RAY_GRAFANA_IFRAME_HOST", "value": workload.dashboards.grafana_url},
        {"name": "RAY_PROMETHEUS_HOST", "value": workload.dashboards.prometheus_url},
    ]


def _one_a_node(workload: RayWorkload) -> Json:
    """The GPUs already force this; stated, it also holds on types where a worker leaves room."""
    labels = _metadata(workload, names.WORKER_GROUP)["labels"]
    selector = {key: labels[key] for key in (names.PART_OF_LABEL, names.COMPONENT_LABEL)}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
