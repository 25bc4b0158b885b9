"""What the charts promise beyond what the snapshots show."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from k8s.props import Active, DashboardLinks, NodeGroup, RayWorkload
from k8s.quantity import parse_quantity
from k8s.render import build_charts, manifests, to_yaml
from k8s.sizing import MIB_PER_GIB, TooSmall, free_for_pods

type Rendered = dict[str, list[dict[str, Any]]]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(item for item in objects if item["kind"] == kind)


def ray_container(group: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = group["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("chart", ["namespace", "storage", "staging", "session", "job"])
def test_manifests_change_only_on_purpose(
    rendered: Rendered, yaml_snapshot: SnapshotAssertion, chart: str
) -> None:
    assert to_yaml(rendered[chart]) == yaml_snapshot


def test_rendering_twice_gives_the_same_bytes(workload: RayWorkload, rendered: Rendered) -> None:
    again = manifests(workload)
    assert {name: to_yaml(objects) for name, objects in again.items()} == {
        name: to_yaml(objects) for name, objects in rendered.items()
    }


@pytest.mark.parametrize("chart", ["session", "job"])
def test_the_head_offers_nothing_to_tasks_and_the_workers_all_gpus(rendered: Rendered, chart: str) -> None:
    spec = rendered[chart][0]["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    head, workers = cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]
    assert (head["rayStartParams"]["num-cpus"], head["rayStartParams"]["num-gpus"]) == ("0", "0")
    assert "nvidia.com/gpu" not in ray_container(head)["resources"]["limits"]
    assert workers["replicas"] == 3
    assert ray_container(workers)["resources"]["limits"]["nvidia.com/gpu"] == "2"


@pytest.mark.parametrize(
    ("active", "job_suspended", "session_suspended"),
    [(Active.JOB, False, True), (Active.SESSION, True, False)],
)
def test_exactly_one_workload_holds_the_nodes(
    workload: RayWorkload, *, active: Active, job_suspended: bool, session_suspended: bool
) -> None:
    charts = manifests(replace(workload, active=active))
    assert charts["job"][0]["spec"]["suspend"] is job_suspended
    assert charts["session"][0]["spec"]["suspend"] is session_suspended


def test_job_and_session_share_the_token_that_kuberay_generates(rendered: Rendered) -> None:
    session, job = rendered["session"][0], rendered["job"][0]
    assert session["spec"]["authOptions"] == {"mode": "token"}
    options = job["spec"]["rayClusterSpec"]["authOptions"]
    assert options == {"mode": "token", "secretName": session["metadata"]["name"]}


def test_volume_and_claim_name_each_other_and_no_storage_class(rendered: Rendered) -> None:
    volume = of_kind(rendered["storage"], "PersistentVolume")
    claim = of_kind(rendered["storage"], "PersistentVolumeClaim")
    assert volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["claimRef"] == {key: claim["metadata"][key] for key in ("name", "namespace")}
    assert volume["spec"]["capacity"] == claim["spec"]["resources"]["requests"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_the_quota_holds_one_cluster_and_not_two(workload: RayWorkload, rendered: Rendered) -> None:
    quota = of_kind(rendered["namespace"], "ResourceQuota")["spec"]["hard"]
    cluster = rendered["session"][0]["spec"]
    asked = parse_quantity(ray_container(cluster["headGroupSpec"])["resources"]["requests"]["cpu"])
    asked += 3 * parse_quantity(ray_container(cluster["workerGroupSpecs"][0])["resources"]["requests"]["cpu"])
    assert asked < parse_quantity(quota["requests.cpu"]) < 2 * asked
    assert quota["requests.nvidia.com/gpu"] == "6"


def test_the_head_leaves_room_for_the_platform_on_its_node(workload: RayWorkload, rendered: Rendered) -> None:
    head = ray_container(rendered["session"][0]["spec"]["headGroupSpec"])["resources"]["requests"]
    free = free_for_pods(workload.head)
    assert free.cpu_millicores / 1000 - float(head["cpu"]) >= 8
    assert free.memory_mib / 1024 - float(head["memory"].removesuffix("Gi")) >= 64


def test_shared_memory_stays_below_the_memory_limit(rendered: Rendered) -> None:
    """Pages of /dev/shm count against the container's limit."""
    cluster = rendered["session"][0]["spec"]
    for group in (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]):
        volumes = {volume["name"]: volume for volume in group["template"]["spec"]["volumes"]}
        shared_memory = parse_quantity(volumes["shared-memory"]["emptyDir"]["sizeLimit"])
        assert shared_memory < parse_quantity(ray_container(group)["resources"]["limits"]["memory"]) / 2


def test_task_governance_labels_every_level_of_the_active_workload_alone(workload: RayWorkload) -> None:
    """Kueue would resume a suspended object that carries the label."""
    charts = manifests(replace(workload, queue="hyperpod-ns-rl-localqueue"))
    job, session = charts["job"][0], charts["session"][0]
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    levels = [job["metadata"], *(group["template"]["metadata"] for group in groups)]
    assert {level["labels"]["kueue.x-k8s.io/queue-name"] for level in levels} == {"hyperpod-ns-rl-localqueue"}
    assert "kueue.x-k8s.io/queue-name" not in session["metadata"]["labels"]


def test_dashboard_links_reach_the_head_alone(workload: RayWorkload) -> None:
    links = DashboardLinks(grafana_url="https://grafana.example", prometheus_url="https://prometheus.example")
    cluster = manifests(replace(workload, dashboards=links))["session"][0]["spec"]
    head = {
        variable["name"]: variable.get("value") for variable in ray_container(cluster["headGroupSpec"])["env"]
    }
    assert head["RAY_GRAFANA_HOST"] == head["RAY_GRAFANA_IFRAME_HOST"] == "https://grafana.example"
    assert head["RAY_PROMETHEUS_HOST"] == "https://prometheus.example"
    assert "RAY_GRAFANA_HOST" not in str(cluster["workerGroupSpecs"])


def test_no_load_balancer_no_node_port_no_mounted_token(rendered: Rendered) -> None:
    text = to_yaml([item for objects in rendered.values() for item in objects])
    assert "type: LoadBalancer" not in text
    assert "type: NodePort" not in text
    assert "automountServiceAccountToken: true" not in text


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    vcpus=st.integers(min_value=2, max_value=192),
    memory_gib=st.integers(min_value=4, max_value=2048),
    max_pods=st.integers(min_value=4, max_value=250),
    gpus=st.integers(min_value=1, max_value=8),
    efa_interfaces=st.integers(min_value=0, max_value=32),
    count=st.integers(min_value=1, max_value=64),
)
def test_on_any_instance_type_the_manifests_are_sound_or_the_type_is_refused(
    workload: RayWorkload, **shape: Any
) -> None:
    """Sizes that the charts choose always pass the judgement of what fits."""
    workers = replace(workload.workers, **shape)
    free = free_for_pods(workers)
    has_room = free.cpu_millicores >= 1000 and free.memory_mib >= 2 * MIB_PER_GIB
    with nullcontext() if has_room else pytest.raises(TooSmall):
        build_charts(replace(workload, workers=workers))


def test_a_type_without_room_for_ray_is_refused_with_the_numbers(workload: RayWorkload) -> None:
    tiny = NodeGroup(
        name="cpu-head", instance_type="ml.t3.medium", count=1, vcpus=2, memory_gib=4, max_pods=16
    )
    with pytest.raises(TooSmall, match=r"cpu-head: ml\.t3\.medium has 2 vCPU and 4 GiB"):
        manifests(replace(workload, head=tiny))
