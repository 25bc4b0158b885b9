"""Seeded mistakes: one change each to a good manifest, and what validation has to say of it.

`path` names the place in the manifest that the message must name; `rule` is a part of what it must say.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

type Manifest = dict[str, Any]

REMOVED = object()
HEAD = "spec.rayClusterSpec.headGroupSpec"
HEAD_POD = f"{HEAD}.template.spec"
WORKERS = "spec.rayClusterSpec.workerGroupSpecs[0]"
WORKER_POD = f"{WORKERS}.template.spec"
WORKER = f"{WORKER_POD}.containers[0]"
SUBMITTER = "spec.submitterPodTemplate.spec.containers[0]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Values to set in the first manifest of a kind; REMOVED takes a field out."""

    name: str
    kind: str
    changes: Mapping[str, Any]
    path: str
    rule: str
    name_in_kind: str | None = field(default=None)
    """Of the object, where there are several of its kind."""

    def made_in(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """A copy of the manifests with the mistake in it."""
        changed = copy.deepcopy(list(manifests))
        target = next(
            item
            for item in changed
            if item["kind"] == self.kind and self.name_in_kind in {None, item["metadata"]["name"]}
        )
        for path, value in self.changes.items():
            _set(target, path, value)
        return changed


def _set(manifest: Manifest, path: str, value: Any) -> None:
    *parents, last = re.findall(r"[^.\[\]]+", path.replace("\\.", "\0"))
    container: Any = manifest
    for part in parents:
        container = container[int(part) if isinstance(container, list) else part.replace("\0", ".")]
    key = int(last) if isinstance(container, list) else last.replace("\0", ".")
    if value is REMOVED:
        del container[key]
    elif isinstance(container, list) and key == len(container):
        container.append(value)
    else:
        container[key] = value


def _core(name: str, kind: str, changes: Mapping[str, Any], path: str, rule: str, **which: str) -> Mistake:
    return Mistake(name=name, kind=kind, changes=changes, path=path, rule=rule, name_in_kind=which.get("of"))


def _job(name: str, changes: Mapping[str, Any], path: str, rule: str) -> Mistake:
    return Mistake(name=name, kind="RayJob", changes=changes, path=path, rule=rule)


def _session(name: str, changes: Mapping[str, Any], path: str, rule: str) -> Mistake:
    return Mistake(name=name, kind="RayCluster", changes=changes, path=path, rule=rule)


CORE_OBJECTS = [
    _core(
        "unknown field in a claim",
        "PersistentVolumeClaim",
        {"spec.storageClass": "fast"},
        "spec.storageClass",
        "is no field",
    ),
    _core(
        "unknown field in a network policy",
        "NetworkPolicy",
        {"spec.podSelectors": {}},
        "spec.podSelectors",
        "is no field",
    ),
    _core(
        "volume without a handle",
        "PersistentVolume",
        {"spec.csi.volumeHandle": REMOVED},
        "spec.csi",
        "volumeHandle is missing",
    ),
    _core(
        "misspelt access mode",
        "PersistentVolumeClaim",
        {"spec.accessModes[0]": "ReadWriteAll"},
        "spec.accessModes[0]",
        "is not one of ReadWriteOnce",
    ),
    _core(
        "protocol that is none",
        "NetworkPolicy",
        {"spec.egress[0].ports[0].protocol": "HTTP"},
        "spec.egress[0].ports[0].protocol",
        "is not one of TCP",
        of="dns",
    ),
    _core(
        "address block that is none",
        "NetworkPolicy",
        {"spec.egress[1].to[0].ipBlock.cidr": "10.0.0.1/8"},
        "spec.egress[1].to[0].ipBlock.cidr",
        "has host bits set",
        of="ray",
    ),
    _core(
        "label value over 63 characters",
        "ServiceAccount",
        {"metadata.labels.team": "x" * 64},
        "metadata.labels.team",
        "is no label value",
    ),
    _core(
        "namespace with an underscore",
        "Namespace",
        {"metadata.name": "Ray_NS"},
        "metadata.name",
        "no DNS name",
    ),
    _core(
        "capacity that is no quantity",
        "PersistentVolume",
        {"spec.capacity.storage": "2400Gigs"},
        "spec.capacity.storage",
        "no Kubernetes quantity",
    ),
    _core(
        "claim larger than its volume",
        "PersistentVolumeClaim",
        {"spec.resources.requests.storage": "4800Gi"},
        "spec.resources.requests.storage",
        "the volume has 2400Gi",
    ),
    _core(
        "claim of the default storage class",
        "PersistentVolumeClaim",
        {"spec.storageClassName": REMOVED},
        "spec.storageClassName",
        "default class",
    ),
    _core(
        "volume reserved for another claim",
        "PersistentVolume",
        {"spec.claimRef.namespace": "other"},
        "spec.volumeName",
        "reserved for other/shared",
    ),
    _core(
        "Job that restarts always",
        "Job",
        {"spec.template.spec.restartPolicy": "Always"},
        "spec.template.spec.restartPolicy",
        "is not one of OnFailure, Never",
    ),
    _core(
        "label key with a space",
        "ServiceAccount",
        {"metadata.labels": {"my team": "rl"}},
        "metadata.labels.my team",
        "is no label key",
    ),
    _core(
        "namespace that is no label",
        "ServiceAccount",
        {"metadata.namespace": "ray.rl"},
        "metadata.namespace",
        "no DNS label",
    ),
    _core(
        "no access mode", "PersistentVolumeClaim", {"spec.accessModes": []}, "spec.accessModes", "is empty"
    ),
    _core(
        "claim without a size",
        "PersistentVolumeClaim",
        {"spec.resources.requests": {}},
        "spec.resources.requests.storage",
        "is missing",
    ),
    _core(
        "volume without a size",
        "PersistentVolume",
        {"spec.capacity": {}},
        "spec.capacity.storage",
        "is missing",
    ),
    _core(
        "claim in a mode that the volume lacks",
        "PersistentVolumeClaim",
        {"spec.accessModes": ["ReadWriteOnce"]},
        "spec.accessModes",
        "the volume offers",
    ),
    _core(
        "address block beside a selector",
        "NetworkPolicy",
        {"spec.egress[1].to[0].podSelector": {}},
        "spec.egress[1].to[0]",
        "stands alone",
        of="ray",
    ),
    _core(
        "namespaced volume",
        "PersistentVolume",
        {"metadata.namespace": "ray"},
        "metadata.namespace",
        "belongs to no namespace",
    ),
    _core(
        "budget with both bounds",
        "PodDisruptionBudget",
        {"spec.maxUnavailable": 1},
        "spec",
        "exactly one of minAvailable and maxUnavailable",
    ),
    _core(
        "kind that does not exist",
        "ServiceAccount",
        {"kind": "ServiceAcount"},
        "kind",
        "is no kind of Kubernetes",
    ),
]

CRD_FIELDS = [
    _job(
        "unknown field in a pod template",
        {f"{WORKER}.resources.limit": {}},
        f"{WORKER}.resources.limit",
        "is no field",
    ),
    _job(
        "misspelt source of a variable",
        {f"{WORKER}.env[2].valueFrom": {"secretRef": {"name": "x"}}},
        f"{WORKER}.env[2].valueFrom.secretRef",
        "is no field",
    ),
    _job("number as text", {f"{WORKERS}.replicas": "3"}, f"{WORKERS}.replicas", "must be integer"),
    _job(
        "start parameter as number",
        {f"{HEAD}.rayStartParams.num-cpus": 0},
        f"{HEAD}.rayStartParams.num-cpus",
        "must be string",
    ),
    _job(
        "memory that is no quantity",
        {f"{WORKER}.resources.limits.memory": "440Gigs"},
        f"{WORKER}.resources.limits.memory",
        "does not match",
    ),
    _job("no containers", {f"{WORKER_POD}.containers": REMOVED}, WORKER_POD, "containers is missing"),
    _job(
        "empty list of containers", {f"{WORKER_POD}.containers": []}, f"{WORKER_POD}.containers", "is empty"
    ),
    _core(
        "Job's memory that is no quantity",
        "Job",
        {"spec.template.spec.containers[0].resources.limits.memory": "128Megs"},
        "spec.template.spec.containers[0].resources.limits.memory",
        "no Kubernetes quantity",
    ),
    _session(
        "authentication that is none",
        {"spec.authOptions.mode": "tokens"},
        "spec.authOptions.mode",
        "is not one of disabled, token",
    ),
    _job(
        "deletion strategy of both generations",
        {
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.deletionStrategy": {
                "onSuccess": {"policy": "DeleteCluster"},
                "onFailure": {"policy": "DeleteCluster"},
                "deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}],
            },
        },
        "spec.deletionStrategy",
        "cannot be used together",
    ),
    _session(
        "manager that is none",
        {"spec.managedBy": "me"},
        "spec.managedBy",
        "managedBy field value must be either",
    ),
    _job(
        "variable set twice",
        {f"{WORKER}.env[1]": {"name": "TRAINING_PROFILE", "value": "other"}},
        f"{WORKER}.env[1]",
        "second item with name TRAINING_PROFILE",
    ),
    _session(
        "alpha version of the API",
        {"apiVersion": "ray.io/v1alpha1"},
        "apiVersion",
        "the alpha version is deprecated",
    ),
    _job("unknown field in the metadata", {"metadata.lables": {}}, "metadata.lables", "is no field"),
    _session("cluster without a spec", {"spec": REMOVED}, "spec", "is missing and required"),
    _job("template without a pod", {f"{WORKER_POD}": REMOVED}, WORKER_POD, "is missing and required"),
    _job("null in a list", {f"{WORKER_POD}.tolerations": [None]}, f"{WORKER_POD}.tolerations[0]", "null"),
]

OPERATOR_RULES = [
    _job(
        "submission mode that does not exist",
        {"spec.submissionMode": "K8SJobMode"},
        "spec.submissionMode",
        "is not one of K8sJobMode",
    ),
    _session("cluster name of 54", {"metadata.name": "r" * 54}, "metadata.name", "allows a RayCluster 53"),
    _job("job name of 48", {"metadata.name": "r" * 48}, "metadata.name", "allows a RayJob 47"),
    _session(
        "name that starts with a digit", {"metadata.name": "1st"}, "metadata.name", "starts with a letter"
    ),
    _job(
        "lower bound above the upper",
        {f"{WORKERS}.minReplicas": 4, f"{WORKERS}.replicas": 4},
        f"{WORKERS}.minReplicas",
        "greater than maxReplicas 3",
    ),
    _job(
        "time to live without shutdown",
        {"spec.shutdownAfterJobFinishes": False},
        "spec.ttlSecondsAfterFinished",
        "without shutdownAfterJobFinishes",
    ),
    _job(
        "deletion rules beside shutdown",
        {
            "spec.deletionStrategy": {
                "deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}]
            }
        },
        "spec.deletionStrategy.deletionRules",
        "excluded by shutdownAfterJobFinishes",
    ),
    _job(
        "token for a Ray without it",
        {"spec.rayClusterSpec.rayVersion": "2.50.0"},
        "spec.rayClusterSpec.rayVersion",
        "needs Ray 2.52 or later",
    ),
    _job(
        "labels among the start parameters",
        {f"{WORKERS}.rayStartParams.labels": "a=b"},
        f"{WORKERS}.rayStartParams.labels",
        "refuses labels here",
    ),
    _job(
        "two sources of resources",
        {f"{HEAD}.resources": {"CPU": "1"}},
        f"{HEAD}.resources",
        "beside rayStartParams num-cpus, num-gpus",
    ),
    _job(
        "feature behind a gate",
        {"spec.rayClusterSpec.networkPolicy": {}},
        "spec.rayClusterSpec.networkPolicy",
        "feature gate RayClusterNetworkPolicy is off",
    ),
    _job(
        "cluster of its own and a selected one",
        {"spec.clusterSelector": {"ray.io/cluster": "maze-grpo-session"}},
        "spec.rayClusterSpec",
        "exactly one of rayClusterSpec and clusterSelector",
    ),
    _job(
        "retries on a selected cluster",
        {"spec.clusterSelector": {"ray.io/cluster": "s"}, "spec.rayClusterSpec": REMOVED},
        "spec.backoffLimit",
        "refused beside clusterSelector",
    ),
    _job(
        "second command in the entrypoint",
        {"spec.entrypoint": "cd /shared && python train.py"},
        "spec.entrypoint",
        "read by the submitter's shell",
    ),
    _job(
        "variable in the entrypoint",
        {"spec.entrypoint": "python -m training train --run-id $RUN"},
        "spec.entrypoint",
        "read by the submitter's shell",
    ),
    _job("no time at all", {"spec.activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", "greater than 0"),
    _job(
        "runtime environment that is no map",
        {"spec.runtimeEnvYAML": "- pip"},
        "spec.runtimeEnvYAML",
        "no YAML map",
    ),
    _job(
        "retries in interactive mode",
        {"spec.submissionMode": "InteractiveMode"},
        "spec.backoffLimit",
        "InteractiveMode allows no retry",
    ),
    _job(
        "submitter beside the sidecar",
        {"spec.submissionMode": "SidecarMode"},
        "spec.submitterPodTemplate",
        "no submitter of its own",
    ),
    _job(
        "autoscaler switched on by a variable",
        {f"{HEAD_POD}.containers[0].env[0]": {"name": "RAY_enable_autoscaler_v2", "value": "1"}},
        f"{HEAD_POD}.containers[0].env",
        "enableInTreeAutoscaling is off",
    ),
    _job(
        "Redis by a variable",
        {f"{HEAD_POD}.containers[0].env[0]": {"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}},
        f"{HEAD_POD}.containers[0].env",
        "RAY_REDIS_ADDRESS is the operator's to set",
    ),
    _session(
        "RocksDB behind its gate",
        {"spec.gcsFaultToleranceOptions": {"backend": "rocksdb"}},
        "spec.gcsFaultToleranceOptions.backend",
        "feature gate GCSFaultToleranceEmbeddedStorage",
    ),
    _session(
        "Redis user among the start parameters",
        {"spec.headGroupSpec.rayStartParams.redis-username": "me"},
        "spec.headGroupSpec.rayStartParams.redis-username",
        "refuses it here",
    ),
    _job(
        "upgrade strategy inside a job",
        {"spec.rayClusterSpec.upgradeStrategy": {"type": "Recreate"}},
        "spec.rayClusterSpec.upgradeStrategy",
        "RayCluster of its own",
    ),
    _session(
        "negative idle time",
        {"spec.enableInTreeAutoscaling": True, "spec.autoscalerOptions": {"idleTimeoutSeconds": -1}},
        "spec.autoscalerOptions.idleTimeoutSeconds",
        "must not be negative",
    ),
    _session(
        "suspended workers under the autoscaler",
        {"spec.enableInTreeAutoscaling": True, "spec.workerGroupSpecs[0].suspend": True},
        "spec.workerGroupSpecs[0].suspend",
        "excluded by the autoscaler",
    ),
    _job(
        "workers deleted under the autoscaler",
        {
            "spec.rayClusterSpec.enableInTreeAutoscaling": True,
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.deletionStrategy": {
                "onSuccess": {"policy": "DeleteWorkers"},
                "onFailure": {"policy": "DeleteSelf"},
            },
        },
        "spec.deletionStrategy",
        "excluded by the autoscaler",
    ),
    _job(
        "deletion of a selected cluster",
        {
            "spec.clusterSelector": {"ray.io/cluster": "s"},
            "spec.rayClusterSpec": REMOVED,
            "spec.backoffLimit": 0,
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.deletionStrategy": {
                "onSuccess": {"policy": "DeleteCluster"},
                "onFailure": {"policy": "DeleteSelf"},
            },
        },
        "spec.deletionStrategy",
        "refused beside clusterSelector",
    ),
    _session(
        "storage of another backend",
        {"spec.gcsFaultToleranceOptions": {"redisAddress": "r:1", "storage": {"claimName": "c"}}},
        "spec.gcsFaultToleranceOptions.storage",
        "backend rocksdb alone",
    ),
    _session(
        "Kubernetes' tokens without token mode",
        {"spec.authOptions": {"mode": "disabled", "enableK8sTokenAuth": True}},
        "spec.authOptions",
        "mode is not token",
    ),
    _session(
        "two kinds of token",
        {"spec.authOptions": {"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}},
        "spec.authOptions",
        "exclude each other",
    ),
    _job(
        "Kubernetes' tokens for a job",
        {"spec.rayClusterSpec.authOptions": {"mode": "token", "enableK8sTokenAuth": True}},
        "spec.rayClusterSpec.authOptions.enableK8sTokenAuth",
        "refuses it for a RayJob",
    ),
    _session(
        "autoscaler v2 with pods that restart",
        {
            "spec.enableInTreeAutoscaling": True,
            "spec.headGroupSpec.template.spec.restartPolicy": "Always",
        },
        "spec.headGroupSpec.template.spec.restartPolicy",
        "with autoscaler v2 it must be Never",
    ),
    _session(
        "autoscaler chosen twice",
        {
            "spec.enableInTreeAutoscaling": True,
            "spec.autoscalerOptions": {"version": "v1"},
            "spec.headGroupSpec.template.spec.containers[0].env[0]": {
                "name": "RAY_enable_autoscaler_v2",
                "value": "0",
            },
        },
        "spec.headGroupSpec.template.spec.containers[0].env",
        "both set",
    ),
    _session(
        "replicas below the lower bound",
        {"spec.workerGroupSpecs[0].replicas": 1},
        "spec.workerGroupSpecs[0].replicas",
        "outside of minReplicas 3",
    ),
    _session(
        "negative bound",
        {
            "spec.workerGroupSpecs[0].minReplicas": -1,
        },
        "spec.workerGroupSpecs[0]",
        "must not be negative",
    ),
    _job(
        "deletion rules out of order",
        {
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.suspend": False,
            "spec.deletionStrategy": {
                "deletionRules": [
                    {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 60}},
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 10}},
                ]
            },
        },
        "spec.deletionStrategy.deletionRules",
        "do not grow",
    ),
    _job(
        "shutdown that deletes nothing",
        {
            "spec.deletionStrategy": {
                "onSuccess": {"policy": "DeleteNone"},
                "onFailure": {"policy": "DeleteNone"},
            }
        },
        "spec.deletionStrategy",
        "DeleteNone contradicts",
    ),
    _job(
        "second rule for one condition",
        {
            "spec.shutdownAfterJobFinishes": False,
            "spec.ttlSecondsAfterFinished": 0,
            "spec.deletionStrategy": {
                "deletionRules": [
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}},
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 2}},
                ]
            },
        },
        "spec.deletionStrategy.deletionRules[1]",
        "a second DeleteSelf",
    ),
    _job(
        "runtime environment that is no YAML",
        {"spec.runtimeEnvYAML": "a: [1"},
        "spec.runtimeEnvYAML",
        "no YAML map",
    ),
    _job(
        "suspended job that never shuts down",
        {"spec.shutdownAfterJobFinishes": False, "spec.ttlSecondsAfterFinished": 0, "spec.suspend": True},
        "spec.suspend",
        "needs shutdownAfterJobFinishes",
    ),
    _job("negative retries", {"spec.backoffLimit": -1}, "spec.backoffLimit", "must not be negative"),
    _job("no entrypoint", {"spec.entrypoint": " "}, "spec.entrypoint", "is empty"),
    _job(
        "selected cluster without its key",
        {"spec.clusterSelector": {"name": "s"}, "spec.rayClusterSpec": REMOVED},
        "spec.clusterSelector",
        "no key ray.io/cluster",
    ),
    _job(
        "idle time without the autoscaler",
        {f"{WORKERS}.idleTimeoutSeconds": 60},
        f"{WORKERS}.idleTimeoutSeconds",
        "only autoscaler v2",
    ),
]

POD_MEANING = [
    _job(
        "mount without a volume",
        {f"{WORKER}.volumeMounts[3]": {"name": "scratch", "mountPath": "/scratch"}},
        f"{WORKER}.volumeMounts[3].name",
        "no volume of the pod",
    ),
    _job(
        "limit below the request",
        {f"{WORKER}.resources.limits.cpu": "8"},
        f"{WORKER}.resources.limits.cpu",
        "less than the request of 45",
    ),
    _job(
        "GPUs without a limit",
        {f"{WORKER}.resources.limits.nvidia\\.com/gpu": REMOVED},
        f"{WORKER}.resources.limits.nvidia.com/gpu",
        "must equal its request",
    ),
    _job(
        "EFA limit above the request",
        {f"{WORKER}.resources.limits.vpc\\.amazonaws\\.com/efa": "2"},
        f"{WORKER}.resources.limits.vpc.amazonaws.com/efa",
        "must equal its request",
    ),
    _job(
        "half a GPU",
        {
            f"{WORKER}.resources.limits.nvidia\\.com/gpu": "500m",
            f"{WORKER}.resources.requests.nvidia\\.com/gpu": "500m",
        },
        f"{WORKER}.resources.limits.nvidia.com/gpu",
        "no whole number of devices",
    ),
    _core(
        "second volume of one name",
        "Job",
        {"spec.template.spec.volumes[1]": {"name": "shared", "emptyDir": {}}},
        "spec.template.spec.volumes[1].name",
        "second volume",
    ),
    _job(
        "submitter left to KubeRay",
        {"spec.submitterPodTemplate": REMOVED},
        f"{SUBMITTER}.securityContext.capabilities",
        "must drop ALL",
    ),
    _core(
        "second container of one name",
        "Job",
        {"spec.template.spec.containers[1]": {"name": "chown", "image": "i"}},
        "spec.template.spec.containers[1].name",
        "second container",
    ),
    _job(
        "port beyond the last",
        {f"{WORKER}.ports[0].containerPort": 70000},
        f"{WORKER}.ports[0].containerPort",
        "is no port",
    ),
    _job(
        "pull policy that is none",
        {f"{WORKER}.imagePullPolicy": "Sometimes"},
        f"{WORKER}.imagePullPolicy",
        "is not one of Always",
    ),
    _job(
        "toleration of everything without saying so",
        {f"{WORKER_POD}.tolerations[0]": {"effect": "NoSchedule"}},
        f"{WORKER_POD}.tolerations[0].key",
        "needs operator Exists",
    ),
    _job(
        "toleration that exists with a value",
        {f"{WORKER_POD}.tolerations[0].operator": "Exists"},
        f"{WORKER_POD}.tolerations[0].value",
        "takes no value",
    ),
    _core(
        "privileged container under baseline",
        "Job",
        {"spec.template.spec.containers[0].securityContext.privileged": True},
        "spec.template.spec.containers[0].securityContext.privileged",
        "is on (baseline)",
    ),
    _core(
        "capability beyond baseline",
        "Job",
        {"spec.template.spec.containers[0].securityContext.capabilities.add": ["SYS_ADMIN"]},
        "spec.template.spec.containers[0].securityContext.capabilities.add",
        "SYS_ADMIN is beyond baseline",
    ),
    _job(
        "port of the node",
        {f"{WORKER}.ports[0].hostPort": 8080},
        f"{WORKER}.ports[0].hostPort",
        "takes a port of the node",
    ),
    _job(
        "capabilities kept",
        {f"{WORKER}.securityContext.capabilities": REMOVED},
        f"{WORKER}.securityContext.capabilities",
        "must drop ALL",
    ),
    _job(
        "no seccomp profile",
        {f"{WORKER_POD}.securityContext.seccompProfile": REMOVED},
        f"{WORKER}.securityContext.seccompProfile",
        "must be RuntimeDefault",
    ),
    _job(
        "volume that restricted forbids",
        {f"{WORKER_POD}.volumes[2]": {"name": "ray-logs", "nfs": {"server": "s", "path": "/"}}},
        f"{WORKER_POD}.volumes[2]",
        "nfs is no volume of level restricted",
    ),
    _job(
        "misspelt effect of a toleration",
        {f"{WORKER_POD}.tolerations[0].effect": "NoScheduling"},
        f"{WORKER_POD}.tolerations[0].effect",
        "is not one of NoSchedule",
    ),
    _core(
        "path mounted twice",
        "Job",
        {"spec.template.spec.containers[0].volumeMounts[1]": {"name": "shared", "mountPath": "/shared"}},
        "spec.template.spec.containers[0].volumeMounts[1].mountPath",
        "mounted twice",
    ),
    _job(
        "shared memory as large as the limit",
        {f"{WORKER_POD}.volumes[1].emptyDir.sizeLimit": "440Gi"},
        f"{WORKER}.resources.limits.memory",
        "volumes in memory",
    ),
    _job(
        "privilege escalation",
        {f"{WORKER}.securityContext.allowPrivilegeEscalation": True},
        f"{WORKER}.securityContext.allowPrivilegeEscalation",
        "must be false at level restricted",
    ),
    _job(
        "submitter as root",
        {"spec.submitterPodTemplate.spec.securityContext.runAsUser": 0},
        f"{SUBMITTER}.securityContext.runAsNonRoot",
        "another user than 0",
    ),
    _job(
        "the node's network",
        {f"{HEAD_POD}.hostNetwork": True},
        f"{HEAD_POD}.hostNetwork",
        "shares the node's namespace",
    ),
    _job(
        "the node's disk",
        {f"{WORKER_POD}.volumes[2]": {"name": "ray-logs", "hostPath": {"path": "/var"}}},
        f"{WORKER_POD}.volumes[2].hostPath",
        "mounts the node's disk",
    ),
    _job(
        "claim that is not there",
        {f"{HEAD_POD}.volumes[0].persistentVolumeClaim.claimName": "fsx"},
        f"{HEAD_POD}.volumes[0].persistentVolumeClaim.claimName",
        "there is no PersistentVolumeClaim 'fsx'",
    ),
    _job(
        "restart policy that is none",
        {f"{HEAD_POD}.restartPolicy": "Sometimes"},
        f"{HEAD_POD}.restartPolicy",
        "is not one of Always",
    ),
]

FIT = [
    _job(
        "memory beyond the node",
        {
            f"{WORKER}.resources.limits.memory": "500Gi",
            f"{WORKER}.resources.requests.memory": "500Gi",
        },
        f"{WORKER}.resources",
        "asks for 500Gi of memory; a node of gpu-workers",
    ),
    _job(
        "CPUs beyond the node",
        {f"{WORKER}.resources.limits.cpu": "48", f"{WORKER}.resources.requests.cpu": "48"},
        f"{WORKER}.resources",
        "asks for 48 of cpu",
    ),
    _job(
        "no toleration of the GPU taint",
        {f"{WORKER_POD}.tolerations": REMOVED},
        f"{WORKER_POD}.tolerations",
        "taint nvidia.com/gpu=present:NoSchedule",
    ),
    _job(
        "instance type without its prefix",
        {f"{WORKER_POD}.nodeSelector.node\\.kubernetes\\.io/instance-type": "g7e.12xlarge"},
        f"{WORKER_POD}.nodeSelector",
        "selects none of the instance groups",
    ),
    _job(
        "more workers than nodes",
        {f"{WORKERS}.replicas": 4, f"{WORKERS}.maxReplicas": 4},
        f"{WORKERS}.replicas",
        "have room for 3",
    ),
    _job(
        "GPUs on the head's node",
        {
            f"{HEAD_POD}.containers[0].resources.limits.nvidia\\.com/gpu": "1",
            f"{HEAD_POD}.containers[0].resources.requests.nvidia\\.com/gpu": "1",
        },
        f"{HEAD_POD}.containers[0].resources",
        "asks for 1 of nvidia.com/gpu; a node of cpu-head",
    ),
    _job(
        "GPU image on a node without",
        {f"{SUBMITTER}.env": []},
        f"{SUBMITTER}.env",
        "which has no GPU",
    ),
]

TOGETHER = [
    _session(
        "job and session at the same time",
        {"spec.suspend": False},
        "spec.suspend",
        "together ask for 12 GPUs of 6",
    ),
    _core(
        "quota below what the job asks for",
        "ResourceQuota",
        {"spec.hard.requests\\.nvidia\\.com/gpu": "4"},
        "spec.hard.requests.nvidia.com/gpu",
        "4, and the pods of",
    ),
    _job(
        "token Secret that nobody makes",
        {"spec.rayClusterSpec.authOptions.secretName": "tokens"},
        "spec.rayClusterSpec.authOptions.secretName",
        "there is no Secret 'tokens'",
    ),
    _job(
        "priority that is not there",
        {f"{HEAD_POD}.priorityClassName": "urgent"},
        f"{HEAD_POD}.priorityClassName",
        "there is no PriorityClass 'urgent'",
    ),
    _job(
        "service account that is not there",
        {f"{WORKER_POD}.serviceAccountName": "trainer"},
        f"{WORKER_POD}.serviceAccountName",
        "there is no ServiceAccount 'trainer'",
    ),
]

MISTAKES = [*CORE_OBJECTS, *CRD_FIELDS, *OPERATOR_RULES, *POD_MEANING, *FIT, *TOGETHER]
