"""Every recorded situation is named, and nothing else with it; a healthy deployment is left in peace."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ops import diagnose
from ops.__main__ import app
from ops.diagnose import diagnoses
from ops.diagnosis.catalogue import CATALOGUE
from ops.diagnosis.evidence import Evidence, gather
from ops.kubectl import Kubectl, KubectlError
from stacks.settings import load_settings

from .aws_stub import StubbedAws, refusal

SITUATIONS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("situations.yaml").read_text())
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
OPERATOR = {"metadata": {"name": "kuberay-operator-5c8f"}, "status": READY}


def node(name: str, instance_type: str, **allocatable: str) -> dict[str, Any]:
    labels = {
        "node.kubernetes.io/instance-type": instance_type,
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
        "sagemaker.amazonaws.com/deep-health-check-status": "Passed",
    }
    return {"metadata": {"name": name, "labels": labels}, "status": {**READY, "allocatable": allocatable}}


def pod(name: str) -> dict[str, Any]:
    started = {"running": {"startedAt": "2026-12-01T15:00:00Z"}}
    done = {"terminated": {"reason": "Completed", "exitCode": 0}}
    return {
        "metadata": {"name": name},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [{"name": "wait-gcs-ready", "state": done}],
            "containerStatuses": [{"name": "ray", "state": started, "lastState": {}}],
        },
    }


HEALTHY = Evidence(
    hyperpod={"InstanceGroups": [{"InstanceGroupName": "gpu-workers", "CurrentCount": 3, "TargetCount": 3}]},
    hyperpod_events=[{"ResourceType": "Cluster", "Description": "Cluster is InService"}],
    nodes=[
        node(
            "hyperpod-i-1",
            "ml.g7e.12xlarge",
            **{"nvidia.com/gpu": "2", "vpc.amazonaws.com/efa": "1", "cpu": "47"},
        ),
        node("hyperpod-i-2", "ml.r5d.16xlarge", cpu="63"),
    ],
    pods=[pod("maze-grpo-x7k2p-head-abcde"), pod("maze-grpo-x7k2p-workers-worker-abcde")],
    operator_pods=[OPERATOR],
    events=[{"involvedObject": {"kind": "Pod", "name": "x"}, "message": "Started container ray-head"}],
    ray_jobs=[
        {
            "kind": "RayJob",
            "metadata": {"name": "maze-grpo", "finalizers": ["ray.io/rayjob-finalizer"]},
            "spec": {"suspend": False},
            "status": {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"},
        }
    ],
    logs={"maze-grpo-x7k2p-head-abcde": "step 12: solved 0.61\nNCCL INFO Using network AWS Libfabric"},
)


def test_a_healthy_deployment_shows_nothing() -> None:
    assert diagnoses(HEALTHY) == []


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: "+".join(situation["shows"]))
def test_a_recorded_situation_is_named_and_nothing_else(situation: dict[str, Any]) -> None:
    seen = {key: value for key, value in situation.items() if key != "shows"}
    found = diagnoses(replace(HEALTHY, **seen))
    assert [diagnosis.situation for diagnosis in found] == sorted(
        situation["shows"], key=[item.name for item in CATALOGUE].index
    )
    assert all(diagnosis.evidence for diagnosis in found)


def test_every_situation_of_the_catalogue_is_recorded() -> None:
    recorded = {name for situation in SITUATIONS for name in situation["shows"]}
    assert recorded == {situation.name for situation in CATALOGUE}
    assert len(recorded) >= 20
    assert len({situation.name for situation in CATALOGUE}) == len(CATALOGUE)


def test_repeated_events_are_told_once() -> None:
    situation = next(item for item in SITUATIONS if item["shows"] == ["file-system-mount-failed"])
    (found,) = diagnoses(replace(HEALTHY, events=situation["events"]))
    assert len(situation["events"]) == 2
    assert len(found.evidence) == 1


def test_saved_evidence_gives_the_same_diagnosis_later(tmp_path: Path) -> None:
    evidence = replace(HEALTHY, logs={"head": "OSError: [Errno 28] No space left on device"})
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(evidence.as_json()))
    result = CliRunner().invoke(app, ["diagnose", "--from", str(path), "--json"])
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)
    assert found["situation"] == "disk-full"
    assert "storage.capacity_gib" in found["remedy"]


def test_people_read_cause_evidence_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(replace(HEALTHY, operator_pods=[]).as_json()))
    output = CliRunner().invoke(app, ["diagnose", "--from", str(path)]).stdout
    assert "operator-absent: no KubeRay operator runs" in output
    assert "seen: 1 Ray objects" in output
    assert "do:" in output


@pytest.mark.parametrize("content", ["", '{"pods": 3}'])
def test_a_file_without_evidence_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(content)
    result = CliRunner().invoke(app, ["diagnose", "--from", str(path)])
    assert result.exit_code == 1
    assert "holds no evidence" in result.stderr


# --- gathering ------------------------------------------------------------------------------------------
KUBECTL = r"""#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
case "$*" in
  *"get pods"*) echo '{"items": [{"metadata": {"name": "head"}, "status": {}}]}' ;;
  *"get rayjobs"*) echo "error: the server doesn't have a resource type" >&2; exit 1 ;;
  *"get "*) echo '{"items": []}' ;;
  *"logs head"*) echo "container creating" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that answers from a script, and the file of its calls."""
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "calls"


def test_gathering_only_reads_and_names_its_context(calls: Path) -> None:
    aws = StubbedAws({"sagemaker.DescribeCluster": refusal("ResourceNotFound")})
    evidence = gather(load_settings(), aws=aws, kubectl=Kubectl(context="mine", namespace="ray"))
    assert evidence.hyperpod == {}
    assert evidence.ray_jobs == []
    assert evidence.logs["head"].startswith("(no log:")
    lines = calls.read_text().splitlines()
    assert all(line.startswith("--context mine --namespace ") for line in lines)
    assert {line.split()[4] for line in lines} == {"get", "logs"}


def test_without_kubectl_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlError, match="install it"):
        Kubectl(context=None, namespace="ray").items("pods")


def test_a_cluster_that_does_not_answer_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(KubectlError, match="longer than 0 s"):
        Kubectl(context=None, namespace="ray").run("get", "pods", seconds=0.1)


def test_the_command_reads_the_cluster_of_its_settings(
    calls: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = {"sagemaker.DescribeCluster": refusal("ResourceNotFound")}
    monkeypatch.setattr(diagnose, "Aws", lambda region: StubbedAws(answers, region))
    saved = tmp_path / "evidence.json"
    result = CliRunner().invoke(app, ["diagnose", "--context", "mine", "--save", str(saved)])
    assert result.exit_code == 0, result.output
    assert "nothing of the catalogue" in result.stdout
    assert json.loads(saved.read_text())["pods"][0]["metadata"]["name"] == "head"
