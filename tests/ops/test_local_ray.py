"""What of the manifest reaches the local nodes and what is replaced. Real Ray is in tests/end_to_end."""

import sys
from pathlib import Path
from typing import Any

import pytest

from k8s.operator import ExpandedPod, ray_nodes
from ops import local_ray
from ops.local_ray import (
    LocalRayError,
    NodeEnded,
    Options,
    Ports,
    free_ports,
    node_environment,
    start_arguments,
)

type Manifest = dict[str, Any]

HEAD_PORTS = Ports(gcs=30001, dashboard=30002, client=30003, metrics=30004, agent=30005)
WORKER_PORTS = Ports(gcs=40001, dashboard=40002, client=40003, metrics=40004, agent=40005)


def arguments(pod: ExpandedPod, ports: Ports) -> list[str]:
    return start_arguments(
        pod, ports=ports, head=HEAD_PORTS, session=Path("/tmp/ray-x"), ray=Path("/bin/ray")
    )


def test_the_head_keeps_the_manifest_s_resources_and_gets_ports_of_its_own(ray_job: Manifest) -> None:
    head, _ = ray_nodes(ray_job)
    line = arguments(head, HEAD_PORTS)
    assert line[:3] == ["/bin/ray", "start", "--head"]
    assert {"--num-cpus=0", "--num-gpus=0", "--block"} <= set(line)
    assert {"--port=30001", "--dashboard-port=30002", "--temp-dir=/tmp/ray-x"} <= set(line)


def test_the_dashboard_is_not_offered_to_the_network(ray_job: Manifest) -> None:
    head, _ = ray_nodes(ray_job)
    assert "--dashboard-host=127.0.0.1" in arguments(head, HEAD_PORTS)


def test_a_worker_has_the_manifest_s_logical_cpus_and_gpus_and_joins_the_head(ray_job: Manifest) -> None:
    _, worker = ray_nodes(ray_job)
    line = arguments(worker, WORKER_PORTS)
    assert {"--num-cpus=44", "--num-gpus=2", "--address=127.0.0.1:30001"} <= set(line)
    assert not any("420" in argument or argument == "--head" for argument in line)


def test_plain_variables_of_the_pod_reach_the_node_and_secrets_do_not(
    ray_job: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere:10001")
    head, _ = ray_nodes(ray_job)
    options = Options(ray=Path("/venv/bin/ray"), logs=tmp_path, environment={"SHARED_DIR": "/here"})
    environment = node_environment(head, head=HEAD_PORTS, options=options)
    assert environment["TRAINING_PROFILE"] == "walkthrough"
    assert environment["SHARED_DIR"] == "/here"
    assert environment["RAY_ADDRESS"] == "127.0.0.1:30001"
    assert environment["PATH"].startswith("/venv/bin:")
    assert environment["RAY_AUTH_MODE"] == "token"
    assert len(environment["RAY_AUTH_TOKEN"]) == 64
    assert "HF_TOKEN" not in environment


def test_every_cluster_gets_another_token(tmp_path: Path) -> None:
    first, second = (Options(ray=Path("ray"), logs=tmp_path) for _ in range(2))
    assert first.token != second.token


def test_no_token_switches_authentication_off(ray_job: Manifest, tmp_path: Path) -> None:
    head, _ = ray_nodes(ray_job)
    options = Options(ray=Path("ray"), logs=tmp_path, token=None)
    environment = node_environment(head, head=HEAD_PORTS, options=options)
    assert environment["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in environment


def test_ports_of_a_node_differ() -> None:
    ports = free_ports()
    assert len({ports.gcs, ports.dashboard, ports.client, ports.metrics, ports.agent}) == 5


def executable(folder: Path, body: str) -> Path:
    path = folder / "ray"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('no room left'); raise SystemExit(3)", "ended with code 3 while starting"),
        ("print('no room left', flush=True); import time; time.sleep(600)", "was not ready after"),
    ],
)
def test_a_head_that_does_not_come_up_is_reported_with_its_last_words(
    ray_job: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    monkeypatch.setattr(local_ray, "START_SECONDS", 1.0)
    options = Options(ray=executable(tmp_path, body), logs=tmp_path)
    with pytest.raises(LocalRayError) as failure, local_ray.local_ray(manifest=ray_job, options=options):
        pass
    assert message in str(failure.value)
    assert "no room left" in str(failure.value)


def test_a_node_that_ends_while_it_starts_gets_another_chance(
    ray_job: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ray, "START_SECONDS", 2.0)
    body = "with open(__file__ + '.tries', 'a') as tries:\n    tries.write('x')\nraise SystemExit(1)"
    options = Options(ray=executable(tmp_path, body), logs=tmp_path)
    with (
        pytest.raises(NodeEnded, match="ended with code 1"),
        local_ray.local_ray(manifest=ray_job, options=options),
    ):
        pass
    assert len((tmp_path / "ray.tries").read_text()) == local_ray.ATTEMPTS > 1
