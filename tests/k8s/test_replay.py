"""The RayJob's manifest replayed on this machine with a real Ray: a head and three workers with two logical
GPUs each, token authentication on, and the submit script that KubeRay would run.

The entrypoint is the manifest's own. What it starts is a stand-in for the training package that takes its
GPUs as the trainer does, three bundles of two on different nodes; the real package is run by `make run`.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from k8s.operator import submit_script
from ops.local_ray import LocalRay, Options, local_ray, token_environment

RAY = Path(__file__).parents[2].resolve() / ".venv-training" / "bin" / "ray"
SUBMIT_SECONDS = 300
STAND_IN = """
import json, os, sys
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

@ray.remote(num_cpus=1, num_gpus=2)
def place():
    return ray.get_runtime_context().get_node_id(), os.environ["CUDA_VISIBLE_DEVICES"]

ray.init(log_to_driver=False)
group = placement_group([{"CPU": 1, "GPU": 2}] * 3, strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=120)
bundles = [PlacementGroupSchedulingStrategy(group, index) for index in range(3)]
places = ray.get([place.options(scheduling_strategy=bundle).remote() for bundle in bundles])
print("REPORT", json.dumps({"arguments": sys.argv[1:], "places": places, "cluster": ray.cluster_resources()}))
"""

type Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def job(rendered: dict[str, list[Manifest]]) -> Manifest:
    return rendered["job"][0]


@pytest.fixture(scope="module")
def cluster(
    job: Manifest, tmp_path_factory: pytest.TempPathFactory, measured: Callable[[str], None]
) -> Iterator[LocalRay]:
    """The manifest's cluster, whose driver finds the stand-in in its working directory."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "training").mkdir()
    (folder / "training" / "__main__.py").write_text(STAND_IN)
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with local_ray(manifest=job, options=Options(ray=RAY, logs=folder)) as running:
            measured(f"replay: {len(running.nodes)} nodes up in {time.monotonic() - start:.0f} s")
            yield running
    memory_gib = running.family.peak_rss_bytes / 2**30
    measured(f"replay: {time.monotonic() - start:.0f} s in all, at most {memory_gib:.1f} GiB resident")


def test_the_entrypoint_gets_two_gpus_on_each_of_three_nodes(cluster: LocalRay, job: Manifest) -> None:
    script = submit_script(job, address=cluster.api.address, submission_id="maze-1")
    environment = {"PATH": f"{RAY.parent}:/usr/bin:/bin", **token_environment(cluster.api.token)}
    submitted = subprocess.run(
        ["/bin/bash", "-ce", "--", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUBMIT_SECONDS,
        check=False,
    )
    (line,) = [line for line in submitted.stdout.splitlines() if line.startswith("REPORT ")]
    report = json.loads(line.removeprefix("REPORT "))
    assert submitted.returncode == 0, submitted.stderr
    assert report["arguments"] == ["train", "--run-id", "maze-1"]
    assert len({node for node, _ in report["places"]}) == 3
    assert [devices for _, devices in report["places"]] == ["0,1"] * 3
    assert (report["cluster"]["GPU"], report["cluster"]["CPU"]) == (6, 3 * 45)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer not-the-token"}, 403)],
    ids=["no token", "wrong token"],
)
def test_without_the_token_the_api_answers_nobody(
    cluster: LocalRay, headers: dict[str, str], status: int
) -> None:
    for path in ("/api/version", "/api/jobs/"):
        url = cluster.api.address + path
        assert urllib3.request("GET", url, headers=headers, retries=False).status == status
    assert cluster.api.version() == "2.57.0"


def test_every_node_answers_the_scraper(cluster: LocalRay) -> None:
    """Metrics are open to the scraper, which has no token."""
    for node in cluster.nodes:
        answer = urllib3.request("GET", f"http://127.0.0.1:{node.ports.metrics}/metrics", retries=False)
        assert answer.status == 200
        assert "ray_" in answer.data.decode()
