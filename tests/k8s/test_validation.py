"""Every seeded mistake is refused with the path, the rule and a remedy; good manifests pass, fast."""

import copy
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import k8s.ray
from k8s.__main__ import app
from k8s.props import RayWorkload
from k8s.render import build_charts, to_yaml
from k8s.validation import ManifestsRefused, validate
from k8s.validation.findings import every_value
from tests.k8s.mistakes import MISTAKES, Mistake

type Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def objects(rendered: dict[str, list[Manifest]]) -> list[Manifest]:
    return [item for chart in rendered.values() for item in chart]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_seeded_mistake_is_refused(
    objects: list[Manifest], workload: RayWorkload, mistake: Mistake
) -> None:
    findings = validate(mistake.made_in(objects), [workload.head, workload.workers])
    about_it = [finding for finding in findings if finding.fault.path == mistake.path]
    assert about_it, f"nothing said of {mistake.path}: {[str(finding) for finding in findings]}"
    assert mistake.rule in about_it[0].fault.rule
    assert about_it[0].fault.remedy.strip()
    assert str(about_it[0]).startswith(about_it[0].manifest)


def test_the_table_is_broad_and_its_rows_differ() -> None:
    assert len(MISTAKES) >= 60
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


def test_the_walkthroughs_manifests_have_no_fault(objects: list[Manifest], workload: RayWorkload) -> None:
    assert validate(objects, [workload.head, workload.workers]) == []


ODD_VALUES: list[Any] = [None, "", -1, 0, 1.5, [], {}, "x", 10**9, True, ["x"], {"a": "b"}, [{}], [None]]


def break_somewhere(manifest: Manifest, choice: st.DataObject) -> None:
    """Replace or remove one value, wherever it lies."""
    paths = [path for path, _ in every_value(manifest) if path]
    *parents, key = choice.draw(st.sampled_from(paths))
    container: Any = manifest
    for part in parents:
        container = container[part]
    if isinstance(container, dict) and choice.draw(st.booleans()):
        del container[key]
    else:
        container[key] = copy.deepcopy(choice.draw(st.sampled_from(ODD_VALUES)))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(choice=st.data())
def test_no_manifest_however_broken_ends_in_a_stack_trace(
    objects: list[Manifest], workload: RayWorkload, choice: st.DataObject
) -> None:
    broken = copy.deepcopy(objects)
    for index in choice.draw(st.lists(st.sampled_from(range(len(broken))), min_size=1, max_size=3)):
        break_somewhere(broken[index], choice)
    assert isinstance(validate(broken, [workload.head, workload.workers]), list)


def test_the_least_ray_cluster_has_no_fault() -> None:
    """What the operator fills in is not held against a manifest."""
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.57.0"}]}}
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"generateName": "mine-"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [
                {"groupName": "w", "replicas": 1, "rayStartParams": None, "template": template}
            ],
        },
    }
    assert validate([cluster]) == []


@pytest.mark.parametrize("kind", ["RayService", "RayCronJob"])
def test_other_kinds_of_kuberay_are_read_to_the_pod(
    objects: list[Manifest], workload: RayWorkload, kind: str
) -> None:
    job = copy.deepcopy(next(item for item in objects if item["kind"] == "RayJob"))
    cluster = job["spec"]["rayClusterSpec"]
    cluster["workerGroupSpecs"][0]["template"]["spec"].pop("tolerations")
    specs = {
        "RayService": {"rayClusterConfig": cluster},
        "RayCronJob": {"schedule": "0 3 * * *", "jobTemplate": job["spec"]},
    }
    manifest = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x"}, "spec": specs[kind]}
    (finding,) = validate([manifest], [workload.head, workload.workers])
    assert "the pod does not tolerate" in finding.fault.rule
    assert finding.fault.path.endswith("workerGroupSpecs[0].template.spec.tolerations")


@pytest.mark.parametrize(
    ("schedule", "rule"), [("TZ=UTC 0 3 * * *", "time zone"), ("every day", "has not five fields")]
)
def test_a_schedule_that_cron_cannot_read_is_refused(
    objects: list[Manifest], schedule: str, rule: str
) -> None:
    job = next(item for item in objects if item["kind"] == "RayJob")
    spec = {"schedule": schedule, "jobTemplate": job["spec"]}
    manifest = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "x"}, "spec": spec}
    assert [rule in finding.fault.rule for finding in validate([manifest])] == [True]


def test_a_config_map_over_a_mebibyte_is_refused() -> None:
    big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"x": "y" * 2**20}}
    (finding,) = validate([big])
    assert finding.fault.path == "data"


def test_the_same_object_twice_is_refused(objects: list[Manifest]) -> None:
    (finding,) = validate([*objects, objects[-1]])
    assert "second object" in finding.fault.rule


@pytest.mark.parametrize("broken", [{}, {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}])
def test_what_is_no_kubernetes_object_is_refused(broken: Manifest) -> None:
    (finding,) = validate([broken])
    assert "is missing or no" in finding.fault.rule


def test_another_operators_kind_is_left_alone() -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "q"}}
    assert validate([queue]) == []


def test_a_bad_manifest_ends_the_synthesis(workload: RayWorkload, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_of: Callable[[RayWorkload], Manifest] = k8s.ray.cluster_spec
    monkeypatch.setattr(k8s.ray, "cluster_spec", lambda props: {**spec_of(props), "rayVersion": "2.50.0"})
    with pytest.raises(
        ManifestsRefused, match=r"RayJob ray/maze-1: spec\.rayClusterSpec\.rayVersion: 2\.50\.0"
    ):
        build_charts(workload)


def test_a_run_id_that_kuberay_cannot_take_ends_the_synthesis(workload: RayWorkload) -> None:
    run = replace(workload.run, run_id="a" * 48)
    with pytest.raises(ManifestsRefused, match="allows a RayJob 47"):
        build_charts(replace(workload, run=run))


def test_the_command_reports_every_file(objects: list[Manifest], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(to_yaml(objects))
    bad.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Ray_NS"}}))
    passed = CliRunner().invoke(app, ["validate", str(good)])
    assert (passed.exit_code, passed.stdout) == (0, f"{len(objects)} objects in 1 files: no fault found\n")
    refused = CliRunner().invoke(app, ["validate", str(good), str(bad)])
    assert refused.exit_code == 1
    assert "Namespace Ray_NS: metadata.name:" in refused.stderr


def test_the_command_refuses_a_file_that_holds_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_text("- a list")
    refused = CliRunner().invoke(app, ["validate", str(path)])
    assert refused.exit_code == 1
    assert "is no Kubernetes object" in refused.stderr


def test_the_command_checks_the_fit_for_an_environment(objects: list[Manifest], tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(to_yaml(objects))
    refused = CliRunner().invoke(app, ["validate", "--environment", "small", str(path)])
    assert refused.exit_code == 1
    assert "selects none of the instance groups (gpu-workers with ml.g7e.2xlarge" in refused.stderr


def test_the_walkthroughs_manifests_are_judged_within_five_seconds(
    objects: list[Manifest], tmp_path: Path, measured: Callable[[str], None]
) -> None:
    """The whole command in a new process, imports included; CPU time, for the machine may be busy."""
    path = tmp_path / "workload.yaml"
    path.write_text(to_yaml(objects))
    command = [sys.executable, "-m", "k8s", "validate", "--environment", "walkthrough", str(path)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=False, capture_output=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measured(f"validation of {len(objects)} objects: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU")
    assert cpu_seconds < 5
