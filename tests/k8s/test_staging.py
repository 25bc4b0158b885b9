"""The job that stages models, and the head's wait for it."""

from dataclasses import replace
from typing import Any

import pytest

from k8s import names
from k8s.props import NodeGroup, RayWorkload, StagedArtifact, Taint
from k8s.render import manifests

ARTIFACT = "hf://VisGym/visgym_model@main/mixed_qwen3vl=models/visgym/mixed_qwen3vl"


def job_of(workload: RayWorkload) -> dict[str, Any]:
    return next(each for each in manifests(workload)["staging"] if each["kind"] == "Job")


def heads_of(workload: RayWorkload) -> list[dict[str, Any]]:
    rendered = manifests(workload)
    (session,), (job,) = rendered["session"], rendered["job"]
    clusters = (session["spec"], job["spec"]["rayClusterSpec"])
    return [cluster["headGroupSpec"]["template"]["spec"] for cluster in clusters]


def test_job_stages_every_artifact_to_the_shared_mount(workload: RayWorkload) -> None:
    pod = job_of(workload)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python", "-m", "training.staging", "--root", "/shared", ARTIFACT]
    assert container["volumeMounts"] == [{"name": names.CLAIM, "mountPath": "/shared"}]
    assert pod["serviceAccountName"] == names.STAGING
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"image": "registry.example/training:2"},
        {"staged": (StagedArtifact(source="s3://bucket/model", folder="models/visgym/mixed_qwen3vl"),)},
        {"hub_token_secret_arn": "arn:aws:secretsmanager:us-east-2:111122223333:secret:hub-AbCdEf"},
    ],
)
def test_a_changed_template_is_another_job(workload: RayWorkload, change: dict[str, Any]) -> None:
    """Kubernetes refuses to change a job's template; applied under a new name it starts."""
    before, after = job_of(workload), job_of(replace(workload, **change))
    assert before["spec"]["template"] != after["spec"]["template"]
    assert before["metadata"]["name"] != after["metadata"]["name"]


def test_an_image_from_another_registry_alone_keeps_the_jobs_name(workload: RayWorkload) -> None:
    """The registry's address is a deploy-time token, whose text differs between syntheses."""
    other = replace(workload, image="${Token[TOKEN.7]}:1")
    assert job_of(other)["metadata"]["name"] == job_of(workload)["metadata"]["name"]


def test_heads_wait_for_what_they_train_from_and_fetch_nothing(workload: RayWorkload) -> None:
    for head in heads_of(workload):
        (container,) = head["initContainers"]
        assert container["command"][:6] == ["python", "-m", "training.staging", "--root", "/shared", ARTIFACT]
        assert container["command"][6] == "--wait"
        assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_without_artifacts_there_is_no_job_and_no_wait(workload: RayWorkload) -> None:
    bare = replace(workload, staged=())
    assert manifests(bare)["staging"] == []
    assert all("initContainers" not in head for head in heads_of(bare))


def test_token_is_read_by_name_so_that_no_manifest_holds_it(workload: RayWorkload) -> None:
    arn = "arn:aws:secretsmanager:us-east-2:111122223333:secret:hub-AbCdEf"
    pod = job_of(replace(workload, hub_token_secret_arn=arn))["spec"]["template"]["spec"]
    environment = {each["name"]: each for each in pod["containers"][0]["env"]}
    assert environment["HF_TOKEN_SECRET_ARN"]["value"] == arn
    assert "value" not in environment["HF_TOKEN"]


def test_staging_pods_may_reach_https_and_the_identity_agent_only(workload: RayWorkload) -> None:
    policy = next(
        each
        for each in manifests(workload)["namespace"]
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == names.STAGING
    )
    labels = job_of(workload)["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
    assert ports == [443, 80]
    assert policy["spec"].get("ingress", []) == []


def test_staging_follows_the_heads_taints(workload: RayWorkload) -> None:
    head: NodeGroup = replace(workload.head, taints=(Taint(key="team", value="rl"),))
    pod = job_of(replace(workload, head=head))["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "team", "operator": "Equal", "value": "rl", "effect": "NoSchedule"}]
