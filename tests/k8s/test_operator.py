"""The pods, start lines and submit script agree with what KubeRay 1.7.0 makes."""

import copy
import shlex
from typing import Any

import pytest

from k8s.operator import Role, expand, ray_nodes, submit_script

type Manifest = dict[str, Any]


@pytest.fixture
def job(rendered: dict[str, list[Manifest]]) -> Manifest:
    return copy.deepcopy(rendered["job"][0])


@pytest.fixture
def bare_cluster() -> Manifest:
    """The least that KubeRay accepts: everything else is the operator's to fill in."""
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.57.0"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "bare"},
        "spec": {
            "rayVersion": "2.57.0",
            "headGroupSpec": {"rayStartParams": {}, "template": copy.deepcopy(template)},
            "workerGroupSpecs": [
                {"groupName": "w", "replicas": 2, "rayStartParams": {}, "template": copy.deepcopy(template)}
            ],
        },
    }


def test_a_job_becomes_a_head_three_workers_and_a_submitter(job: Manifest) -> None:
    assert [(pod.role, pod.replicas) for pod in expand(job)] == [
        (Role.HEAD, 1),
        (Role.WORKER, 3),
        (Role.SUBMITTER, 1),
    ]


def test_the_head_starts_with_the_manifests_parameters(job: Manifest) -> None:
    head = next(ray_nodes(job))
    assert head.start_command() == [
        "ray",
        "start",
        "--head",
        "--block",
        "--dashboard-agent-listen-port=52365",
        "--dashboard-host=0.0.0.0",
        f"--memory={330 * 2**30}",
        "--metrics-export-port=8080",
        "--num-cpus=0",
        "--num-gpus=0",
    ]


def test_a_worker_takes_its_resources_from_the_limits(job: Manifest) -> None:
    _, worker = ray_nodes(job)
    params = dict(worker.start_params)
    assert (params["num-cpus"], params["num-gpus"], params["memory"]) == ("45", "2", str(440 * 2**30))
    assert params["address"] == "maze-1-00000-head-svc.ray.svc.cluster.local:6379"


def test_overrides_replace_and_add_parameters(job: Manifest) -> None:
    command = next(ray_nodes(job)).start_command(metrics_export_port="9001", temp_dir="/tmp/x")
    assert "--metrics-export-port=9001" in command
    assert "--temp-dir=/tmp/x" in command


def test_boolean_parameters_become_switches(bare_cluster: Manifest) -> None:
    params = {"no-monitor": "true", "disable-usage-stats": "False", "include-dashboard": "false"}
    bare_cluster["spec"]["headGroupSpec"]["rayStartParams"] = params
    command = next(ray_nodes(bare_cluster)).start_command()
    assert "--no-monitor" in command
    assert "--include-dashboard=false" in command
    assert not [argument for argument in command if "usage-stats" in argument]


def test_requests_stand_in_for_a_missing_cpu_limit(bare_cluster: Manifest) -> None:
    container = bare_cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1500m", "memory": "2Gi"}}
    params = next(ray_nodes(bare_cluster)).start_params
    assert params["num-cpus"] == "2"
    assert "memory" not in params


def test_shared_memory_defaults_to_the_memory_limit(bare_cluster: Manifest) -> None:
    container = bare_cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "4Gi"}}
    head = next(ray_nodes(bare_cluster)).pod["spec"]
    assert {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}} in head["volumes"]
    assert {"name": "shared-mem", "mountPath": "/dev/shm"} in head["containers"][0]["volumeMounts"]


def test_our_own_shared_memory_is_left_alone(job: Manifest) -> None:
    for node in ray_nodes(job):
        assert "shared-mem" not in [volume["name"] for volume in node.pod["spec"]["volumes"]]


@pytest.mark.parametrize(("version", "kind"), [("2.57.0", "httpGet"), ("2.52.1", "exec"), ("", "exec")])
def test_the_ray_version_decides_the_probes(bare_cluster: Manifest, version: str, kind: str) -> None:
    """Older, and unset, means wget inside the image."""
    bare_cluster["spec"]["rayVersion"] = version
    for node in ray_nodes(bare_cluster):
        container = node.pod["spec"]["containers"][0]
        assert kind in container["livenessProbe"]
        assert kind in container["readinessProbe"]


def test_workers_wait_for_the_head_with_the_containers_own_view(job: Manifest) -> None:
    _, worker = ray_nodes(job)
    (waiting,) = worker.pod["spec"]["initContainers"]
    container = worker.pod["spec"]["containers"][0]
    assert waiting["volumeMounts"] == container["volumeMounts"]
    assert waiting["securityContext"] == container["securityContext"]
    assert "RAY_AUTH_TOKEN" in [variable["name"] for variable in waiting["env"]]


def test_the_token_comes_from_the_named_secret_everywhere(job: Manifest) -> None:
    for pod in expand(job):
        (token,) = [v for v in pod.pod["spec"]["containers"][0]["env"] if v["name"] == "RAY_AUTH_TOKEN"]
        assert token["valueFrom"]["secretKeyRef"] == {"name": "maze-grpo-session", "key": "auth_token"}


@pytest.mark.parametrize(
    ("group", "replicas"),
    [
        ({"replicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 3, "maxReplicas": 4}, 3),
        ({"replicas": 9, "minReplicas": 3, "maxReplicas": 4}, 4),
        ({"replicas": 2, "numOfHosts": 4}, 8),
        ({"replicas": 2, "suspend": True}, 0),
    ],
)
def test_replicas_stay_within_their_bounds(
    bare_cluster: Manifest, group: dict[str, Any], replicas: int
) -> None:
    bare_cluster["spec"]["workerGroupSpecs"][0] |= group
    _, worker = ray_nodes(bare_cluster)
    assert worker.replicas == replicas


def test_a_command_of_the_manifest_runs_before_ray(bare_cluster: Manifest) -> None:
    container = bare_cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["command"] = ["echo", "hello"]
    (script,) = next(ray_nodes(bare_cluster)).pod["spec"]["containers"][0]["args"]
    assert script.startswith("echo hello && ulimit -n ")
    assert "ray start --head" in script


def test_the_annotation_keeps_the_manifests_command(bare_cluster: Manifest) -> None:
    bare_cluster["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    bare_cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "1"]
    head = next(ray_nodes(bare_cluster))
    assert head.pod["spec"]["containers"][0]["command"] == ["sleep", "1"]
    assert head.environment["KUBERAY_GEN_RAY_START_CMD"].startswith("ray start --head")


def test_operator_labels_win_over_the_templates(bare_cluster: Manifest) -> None:
    template = bare_cluster["spec"]["workerGroupSpecs"][0]["template"]
    template["metadata"] = {"labels": {"ray.io/group": "mine", "team": "rl"}}
    _, worker = ray_nodes(bare_cluster)
    labels = worker.pod["metadata"]["labels"]
    assert (labels["ray.io/group"], labels["team"], labels["ray.io/is-ray-node"]) == ("w", "rl", "yes")


def test_the_submit_script_submits_once_and_follows(job: Manifest) -> None:
    job["spec"]["runtimeEnvYAML"] = "env_vars:\n  A: b\n"
    script = submit_script(job, address="http://127.0.0.1:8265", submission_id="run-1")
    words = shlex.split(script.replace(";", " ; "))
    assert words[words.index("--runtime-env-json") + 1] == '{"env_vars": {"A": "b"}}'
    assert " -- python -m training train --run-id maze-1 ; fi ; ray job logs " in script


def test_other_kinds_have_no_pods_of_kuberay() -> None:
    assert expand({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ray"}}) == []
