"""Taking a deployment down: the order, the limits, and going on after an interruption."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from typer.testing import CliRunner

from ops import teardown
from ops.__main__ import app
from ops.kubectl import KubectlError
from ops.leftovers.model import Scope
from ops.output import OperationError
from stacks.settings import load_settings

from .fake_cluster import FakeCluster, ray_job
from .test_audit import Account, client, plant_access

TEMPLATE = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    fake = FakeCluster()
    monkeypatch.setattr(teardown, "Kubectl", lambda **_: fake)
    monkeypatch.setattr(teardown, "Aws", Account)
    with mock_aws():
        yield fake


@pytest.fixture
def destroyed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands for the CDK: every stack goes; the list tells that it was called."""
    called: list[str] = []

    def destroy(environment: str, *, seconds: float) -> None:
        called.append(environment)
        cloudformation = client("cloudformation")
        for stack in cloudformation.describe_stacks()["Stacks"]:
            cloudformation.delete_stack(StackName=stack["StackName"])

    monkeypatch.setattr(teardown, "destroy", destroy)
    return called


def deploy(*parts: str) -> None:
    for part in parts:
        client("cloudformation").create_stack(StackName=f"maze-grpo-{part}", TemplateBody=TEMPLATE)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["teardown", *arguments])


def test_jobs_go_before_clusters_and_stacks_in_reverse_order(cluster: FakeCluster) -> None:
    deploy("network", "ray", "cluster")
    cluster.add({"kind": "RayCluster", "metadata": {"name": "maze-grpo-session"}, "spec": {}})
    cluster.add(ray_job("maze-grpo"))
    result = invoke("--dry-run", "--json")
    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert plan["ray_objects"] == ["rayjobs.ray.io/maze-grpo", "rayclusters.ray.io/maze-grpo-session"]
    assert plan["stacks"] == ["maze-grpo-ray", "maze-grpo-cluster", "maze-grpo-network"]
    assert not any(call[0] == "delete" for call in cluster.calls)


def test_everything_goes_and_the_audit_says_so(cluster: FakeCluster, destroyed: list[str]) -> None:
    deploy("network", "ray")
    cluster.add(ray_job("maze-grpo"))
    result = invoke("--yes")
    assert result.exit_code == 0, result.output
    assert "nothing is left" in result.stdout
    assert cluster.objects == {}
    assert destroyed == ["walkthrough"]


def test_what_stays_behind_fails_the_command(cluster: FakeCluster, destroyed: list[str]) -> None:
    deploy("network")
    plant_access("maze-grpo")
    result = invoke("--yes")
    assert result.exit_code == 1
    assert "IAM role" in result.stdout
    assert destroyed


def test_a_second_run_after_an_interruption_does_only_what_is_left(
    cluster: FakeCluster, destroyed: list[str]
) -> None:
    deploy("network")
    assert invoke("--yes").exit_code == 0
    assert not any(call[0] == "delete" for call in cluster.calls)
    assert invoke("--yes").exit_code == 0
    assert destroyed == ["walkthrough"]


def test_nothing_happens_without_consent(cluster: FakeCluster, destroyed: list[str]) -> None:
    deploy("network")
    assert CliRunner().invoke(app, ["teardown"], input="n\n").exit_code == 1
    assert destroyed == []


def test_an_unreachable_cluster_stops_the_teardown_while_ray_is_deployed(
    cluster: FakeCluster, destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy("network", "ray")

    def refuse(*_: object, **__: object) -> str:
        raise KubectlError("Unable to connect to the server")

    monkeypatch.setattr(FakeCluster, "run", refuse)
    result = invoke("--yes")
    assert result.exit_code == 1
    assert "Unable to connect" in result.stderr
    assert destroyed == []


def test_without_a_ray_stack_the_cluster_is_not_asked(cluster: FakeCluster) -> None:
    deploy("network")
    scope = Scope(settings=load_settings(), aws=Account())
    plan = teardown.plan(load_settings(), scope=scope, kubectl=cluster)
    assert (plan.stacks, cluster.calls) == (("maze-grpo-network",), [])


@pytest.mark.parametrize(
    ("script", "message"),
    [("exit 3", "ended with code 3"), ("exec sleep 30", "is not done after 0 min")],
)
def test_a_destroy_that_fails_or_hangs_tells_how_to_go_on(tmp_path: Path, script: str, message: str) -> None:
    cdk = tmp_path / "cdk"
    cdk.write_text(f"#!/bin/sh\n{script}\n")
    cdk.chmod(0o755)
    with pytest.raises(OperationError, match=message) as refusal:
        teardown.destroy("walkthrough", seconds=0.5, cdk=cdk)
    assert "run the same command again" in str(refusal.value)
