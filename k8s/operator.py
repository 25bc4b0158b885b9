"""What the KubeRay operator makes of a RayCluster or RayJob: pods, `ray start` lines and the submit script.

The operator fills in much that a manifest leaves out, and judges much only then. Doing the same here lets the
manifests be checked as the pods they become (`k8s.validation`) and be replayed on one machine (`ops`):

    for node in ray_nodes(manifest):              # head first, then each worker group
        for _ in range(node.replicas):
            argv = node.start_command(port="6380")  # ["ray", "start", "--head", ...], parameters overridden
            environment = node.environment          # the plain variables of the Ray container
    script = submit_script(manifest, address="http://127.0.0.1:8265", submission_id="run-1")

Follows controllers/ray/common/pod.go and job.go of KubeRay 1.7.0 with its default feature gates, for clusters
without in-tree autoscaling, TLS or GCS fault tolerance.
"""

import copy
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from k8s import names
from k8s.quantity import parse_quantity, whole

type Json = dict[str, Any]

_GENERATED_SUFFIX = "00000"
"""Stands for the five random characters that the operator appends to the name of a cluster's creator."""
_PLACES: Mapping[str, tuple[str, ...]] = {
    "RayCluster": (),
    "RayJob": ("rayClusterSpec",),
    "RayService": ("rayClusterConfig",),
    "RayCronJob": ("jobTemplate", "rayClusterSpec"),
}
"""Where a kind keeps the spec of its cluster, below `spec`."""
_AGENT_PORT = 52365
_UNIFIED_HEALTH_CHECK = (2, 53)
"""The first Ray whose health is one HTTP endpoint; older ones are probed with wget inside the image."""
_OPTIONS_WITH_BOOLEAN_ARGUMENT = {"log-color", "include-dashboard", "include-log-monitor"}


class Role(StrEnum):
    HEAD = "head"
    WORKER = "worker"
    SUBMITTER = "submitter"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedPod:
    """One kind of pod that the operator creates, `replicas` times."""

    role: Role
    group: str
    replicas: int
    path: str
    """Of the pod template in the manifest, such as `spec.headGroupSpec.template`."""
    start_params: Mapping[str, str]
    """Parameters of `ray start` as the operator completes them; empty for the submitter."""
    pod: Json
    """The Pod as it reaches the API server."""

    @property
    def environment(self) -> dict[str, str]:
        """The Ray container's variables that have a plain value."""
        variables = self.pod["spec"]["containers"][0].get("env", [])
        return {variable["name"]: variable["value"] for variable in variables if "value" in variable}

    def start_command(self, **overrides: str) -> list[str]:
        """The `ray start` line as arguments. `num_gpus="0"` overrides or adds the parameter `num-gpus`."""
        changed = {name.replace("_", "-"): value for name, value in overrides.items()}
        return shlex.split(_start_line(self.role, {**self.start_params, **changed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """What the pods of one RayCluster share."""

    name: str
    namespace: str
    spec: Json
    path: str
    overwrites_command: bool

    @property
    def head_service(self) -> str:
        return f"{self.name}-head-svc.{self.namespace}.svc.cluster.local"

    @property
    def head_port(self) -> str:
        port = self.spec["headGroupSpec"].get("rayStartParams", {}).get("port", names.GCS_PORT)
        return str(port)

    @property
    def auth_environment(self) -> list[Json]:
        options = self.spec.get("authOptions", {})
        if options.get("mode") != "token":
            return []
        reference = {"name": options.get("secretName") or self.name, "key": "auth_token"}
        return [
            {"name": "RAY_AUTH_MODE", "value": "token"},
            {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": reference}},
        ]


def expand(manifest: Json) -> list[ExpandedPod]:
    """The pods of an object of KubeRay, head first; empty for any other kind."""
    pods = list(ray_nodes(manifest))
    if manifest["kind"] == "RayJob" and manifest["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode":
        pods.append(_submitter(manifest, pods))
    return pods


def ray_nodes(manifest: Json) -> Iterator[ExpandedPod]:
    """The head, then every worker group."""
    cluster = _cluster_of(manifest)
    if cluster is None:
        return
    yield _node(cluster, Role.HEAD, cluster.spec["headGroupSpec"], f"{cluster.path}.headGroupSpec", 1)
    for index, group in enumerate(cluster.spec.get("workerGroupSpecs", [])):
        replicas = _replicas(group) * group.get("numOfHosts", 1)
        yield _node(cluster, Role.WORKER, group, f"{cluster.path}.workerGroupSpecs[{index}]", replicas)


def submit_script(manifest: Json, *, address: str, submission_id: str) -> str:
    """The bash script of a RayJob's submitter: it submits unless that was done, then follows the log.

    The entrypoint stands in it unquoted, as the operator leaves it.
    """
    spec = manifest["spec"]
    probe = f"import urllib.request as u; u.urlopen('{address}/api/gcs_healthz', timeout=10)"
    submit = ["ray job submit --address", address, "--no-wait"]
    runtime_environment = spec.get("runtimeEnvYAML")
    if runtime_environment:
        submit += ["--runtime-env-json", json.dumps(json.dumps(yaml.safe_load(runtime_environment)))]
    if spec.get("metadata"):
        submit += ["--metadata-json", json.dumps(json.dumps(spec["metadata"]))]
    submit += ["--submission-id", submission_id, "--", spec["entrypoint"].strip()]
    return (
        f'until python -c "{probe}" >/dev/null 2>&1 ; do echo waiting for {address} ; sleep 2 ; done ; '
        f"if ! ray job status --address {address} {submission_id} >/dev/null 2>&1 ; "
        f"then {' '.join(submit)} ; fi ; "
        f"ray job logs --address {address} --follow {submission_id}"
    )


def cluster_spec_of(manifest: Json) -> tuple[str, Json] | None:
    """Path and value of the cluster's spec in an object of KubeRay, if it has one of its own."""
    place = _PLACES.get(manifest["kind"])
    if place is None:
        return None
    spec = manifest["spec"]
    for field in place:
        spec = spec.get(field) or {}
    return (".".join(("spec", *place)), spec) if spec else None


def _cluster_of(manifest: Json) -> _Cluster | None:
    found = cluster_spec_of(manifest)
    if found is None:
        return None
    path, spec = found
    metadata = manifest["metadata"]
    annotation = (metadata.get("annotations") or {}).get("ray.io/overwrite-container-cmd", "")
    is_made = manifest["kind"] != "RayCluster"
    return _Cluster(
        name=f"{metadata['name']}-{_GENERATED_SUFFIX}" if is_made else metadata["name"],
        namespace=metadata.get("namespace", "default"),
        spec=spec,
        path=path,
        overwrites_command=annotation.lower() == "true",
    )


def _node(cluster: _Cluster, role: Role, group: Json, path: str, replicas: int) -> ExpandedPod:
    group_name = "headgroup" if role is Role.HEAD else group["groupName"]
    pod = copy.deepcopy(group["template"])
    container = pod["spec"]["containers"][0]
    if role is Role.WORKER:
        pod["spec"].setdefault("initContainers", []).append(_wait_for_head(cluster, container))
    params = _start_params(cluster, role, group, container.get("resources", {}))
    _complete_metadata(pod, cluster, role, group_name, group.get("labels", {}))
    _mount_shared_memory(pod, params)
    if not any(port.get("name") == "metrics" for port in container.get("ports", [])):
        container.setdefault("ports", []).append({"name": "metrics", "containerPort": names.METRICS_PORT})
    if not cluster.overwrites_command:
        _set_command(container, _start_line(role, params))
    _complete_environment(container, cluster, role, _start_line(role, params))
    _add_probes(container, role, params, cluster.spec.get("rayVersion", ""))
    return ExpandedPod(
        role=role,
        group=group_name,
        replicas=replicas,
        path=f"{path}.template",
        start_params=params,
        pod={"apiVersion": "v1", "kind": "Pod", **pod},
    )


def _replicas(group: Json) -> int:
    """What the operator makes of the wish: within the bounds, and none while the group is suspended."""
    lowest, highest = int(group.get("minReplicas", 0)), int(group.get("maxReplicas", 2**31 - 1))
    wanted = int(group.get("replicas", lowest))
    return 0 if group.get("suspend") else max(lowest, min(wanted, highest))


def _start_params(cluster: _Cluster, role: Role, group: Json, resources: Json) -> dict[str, str]:
    """The group's own parameters, completed by the operator's defaults and the container's limits."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    defaults = {
        "metrics-export-port": str(names.METRICS_PORT),
        "dashboard-agent-listen-port": str(_AGENT_PORT),
    }
    if role is Role.HEAD:
        defaults["dashboard-host"] = names.ALL_INTERFACES
    else:
        defaults["address"] = f"{cluster.head_service}:{cluster.head_port}"
    cpu = limits.get("cpu", requests.get("cpu"))
    amounts = {"num-cpus": cpu, "memory": limits.get("memory"), "num-gpus": _gpus(limits)}
    defaults |= {name: str(whole(amount)) for name, amount in amounts.items() if amount}
    labels = ",".join(f"{key}={value}" for key, value in sorted(group.get("labels", {}).items()))
    if labels:
        defaults["labels"] = labels
    return {**defaults, **group.get("rayStartParams", {}), "block": "true"}


def _gpus(limits: Json) -> str | None:
    """The first GPU resource by name that is not zero, as the operator picks it."""
    amounts = (limits[key] for key in sorted(limits) if key.endswith("gpu"))
    return next((str(amount) for amount in amounts if parse_quantity(amount)), None)


def _start_line(role: Role, params: Mapping[str, str]) -> str:
    flags = []
    for option, argument in sorted(params.items()):
        if argument.lower() in {"true", "false"} and option not in _OPTIONS_WITH_BOOLEAN_ARGUMENT:
            flags += [f"--{option}"] if argument.lower() == "true" else []
        else:
            flags.append(f"--{option}={argument}")
    return " ".join(["ray start", *(["--head"] if role is Role.HEAD else []), *flags])


def _wait_for_head(cluster: _Cluster, container: Json) -> Json:
    """The init container holds a worker back until the head answers, with the Ray container's own view."""
    inherited = ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts")
    resources = {"cpu": "200m", "memory": "256Mi"}
    check = f"ray health-check --address {cluster.head_service}:{cluster.head_port}"
    copied = copy.deepcopy({key: container[key] for key in inherited if key in container})
    missing = _missing(copied.get("env", []), cluster.auth_environment)
    return {
        **copied,
        "name": "wait-gcs-ready",
        "command": ["/bin/bash", "-c", "--"],
        "args": [f"until {check}; do sleep 5; done"],
        "env": [*copied.get("env", []), *missing, {"name": "FQ_RAY_IP", "value": cluster.head_service}],
        "resources": {"requests": resources, "limits": resources},
    }


def _complete_metadata(
    pod: Json, cluster: _Cluster, role: Role, group_name: str, group_labels: Mapping[str, str]
) -> None:
    metadata = pod.setdefault("metadata", {})
    metadata["namespace"] = cluster.namespace
    metadata["generateName"] = f"{cluster.name}-{'head' if role is Role.HEAD else group_name + '-worker'}-"
    fixed = {
        "ray.io/cluster": cluster.name,
        "ray.io/node-type": str(role),
        "ray.io/group": group_name,
    }
    defaults = {
        names.RAY_NODE_LABEL: "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    metadata["labels"] = {**defaults, **metadata.get("labels", {}), **group_labels, **fixed}


def _mount_shared_memory(pod: Json, params: Mapping[str, str]) -> None:
    container = pod["spec"]["containers"][0]
    mounts = container.setdefault("volumeMounts", [])
    if "plasma-directory" in params or any(mount["mountPath"] == names.SHARED_MEMORY_DIR for mount in mounts):
        return
    resources = container.get("resources", {})
    memory = resources.get("limits", {}).get("memory", resources.get("requests", {}).get("memory"))
    empty_dir = {"medium": "Memory", **({"sizeLimit": memory} if memory else {})}
    pod["spec"].setdefault("volumes", []).append({"name": "shared-mem", "emptyDir": empty_dir})
    mounts.append({"name": "shared-mem", "mountPath": names.SHARED_MEMORY_DIR})


def _set_command(container: Json, start_line: str) -> None:
    """A command of the manifest's own runs before `ray start`, unless it starts Ray itself."""
    own = " ".join([*container.get("command", []), *container.get("args", [])])
    if "ray start" in own:
        return
    generated = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start_line}"
    container["command"] = ["/bin/bash", "-c", "--"]
    container["args"] = [f"{own} && {generated}" if own else generated]


def _complete_environment(container: Json, cluster: _Cluster, role: Role, start_line: str) -> None:
    head = "127.0.0.1" if role is Role.HEAD else cluster.head_service
    defaults = [
        *cluster.auth_environment,
        {"name": "FQ_RAY_IP", "value": head},
        _field("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
        _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _field("RAY_NODE_TYPE_NAME", "metadata.labels['ray.io/group']"),
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": start_line},
        {"name": "RAY_PORT", "value": cluster.head_port},
        {"name": "RAY_ADDRESS", "value": f"{head}:{cluster.head_port}"},
        {"name": "RAY_USAGE_STATS_KUBERAY_IN_USE", "value": "1"},
        {"name": "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "value": "1"},
    ]
    own = container.get("env", [])
    container["env"] = [*own, *_missing(own, defaults)]


def _missing(own: list[Json], defaults: list[Json]) -> list[Json]:
    present = {variable["name"] for variable in own}
    return [variable for variable in defaults if variable["name"] not in present]


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _add_probes(container: Json, role: Role, params: Mapping[str, str], ray_version: str) -> None:
    agent, dashboard = params["dashboard-agent-listen-port"], params.get("dashboard-port", "8265")
    urls = [f"http://localhost:{agent}/api/local_raylet_healthz"]
    if role is Role.HEAD:
        urls.append(f"http://localhost:{dashboard}/api/gcs_healthz")
    wget = " && ".join(f"wget --tries 1 -T 2 -q -O- {url} | grep success" for url in urls)
    probe: Json
    if version_numbers(ray_version) >= _UNIFIED_HEALTH_CHECK:
        probe = {"httpGet": {"path": "/api/healthz", "port": int(agent)}}
    else:
        probe = {"exec": {"command": ["bash", "-c", wget]}}
    timing = {"timeoutSeconds": 5 if role is Role.HEAD else 2, "periodSeconds": 5, "successThreshold": 1}
    liveness = {**probe, **timing, "initialDelaySeconds": 30, "failureThreshold": 120}
    readiness = {**probe, **timing, "initialDelaySeconds": 10, "failureThreshold": 10}
    container.setdefault("livenessProbe", liveness)
    container.setdefault("readinessProbe", readiness)


def version_numbers(ray_version: str) -> tuple[int, ...]:
    """Numbers of a version such as 2.57.0; empty, hence older than any, when it does not start like one."""
    parts = ray_version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def _submitter(manifest: Json, nodes: list[ExpandedPod]) -> ExpandedPod:
    spec, metadata = manifest["spec"], manifest["metadata"]
    cluster = _cluster_of(manifest)
    template = copy.deepcopy(spec.get("submitterPodTemplate")) or _default_submitter(nodes)
    head_service = cluster.head_service if cluster else "head-svc"
    container = template["spec"]["containers"][0]
    if not container.get("command"):
        script = submit_script(
            manifest, address=f"http://{head_service}:{names.DASHBOARD_PORT}", submission_id=metadata["name"]
        )
        container["command"], container["args"] = ["/bin/bash", "-ce", "--"], [script]
    container.setdefault("env", []).append({"name": "PYTHONUNBUFFERED", "value": "1"})
    if cluster:
        container["env"] += _missing(container["env"], cluster.auth_environment)
    pod_metadata = template.setdefault("metadata", {})
    pod_metadata |= {
        "namespace": metadata.get("namespace", "default"),
        "generateName": f"{metadata['name']}-",
    }
    origin = {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayJob"}
    pod_metadata["labels"] = {**pod_metadata.get("labels", {}), **origin}
    return ExpandedPod(
        role=Role.SUBMITTER,
        group="submitter",
        replicas=1,
        path="spec.submitterPodTemplate",
        start_params={},
        pod={"apiVersion": "v1", "kind": "Pod", **template},
    )


def _default_submitter(nodes: list[ExpandedPod]) -> Json:
    image = nodes[0].pod["spec"]["containers"][0]["image"] if nodes else ""
    container = {
        "name": "ray-job-submitter",
        "image": image,
        "resources": {
            "requests": {"cpu": "500m", "memory": "200Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}
