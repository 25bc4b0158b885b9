"""The operator for Ray and the order in which the workload's objects come and go."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.names import KUBERAY_COMMIT, KUBERAY_VERSION, SHARED_DIR
from stacks.settings import Artifact, Settings, Staging, Studio, load_settings
from stacks.staging_identity import statements
from tests.infra.conftest import Template, resources_of, synthesize, the_resource

HELM = "Custom::AWSCDK-EKS-HelmChart"
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


@pytest.fixture
def ray(walkthrough: dict[str, Template]) -> Template:
    return walkthrough["ray"]


def text_of(value: Any) -> str:
    """A string with every deploy-time value replaced by `?`."""
    if isinstance(value, str):
        return value
    return "".join(part if isinstance(part, str) else "?" for part in value["Fn::Join"][1])


def objects_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return list(json.loads(text_of(manifest["Properties"]["Manifest"])))


def test_operator_is_pinned_and_waited_for(ray: Template) -> None:
    chart = the_resource(ray, HELM)
    assert chart["Chart"] == "kuberay-operator"
    assert chart["Version"] == KUBERAY_VERSION
    assert (chart["Wait"], chart["Atomic"], chart["Timeout"]) == (True, True, "600s")
    values = json.loads(chart["Values"])
    assert values["image"]["tag"] == f"v{KUBERAY_VERSION}"
    assert values["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "cpu-head"}


def test_crds_come_at_the_operators_version_and_before_it(ray: Template) -> None:
    """Helm would install them once and never upgrade them."""
    crds = resources_of(ray, "Custom::HelmCrds")
    (properties,) = (each["Properties"] for each in crds.values())
    assert (properties["Commit"], properties["ChartPath"]) == (KUBERAY_COMMIT, "helm-chart/kuberay-operator")
    (operator,) = resources_of(ray, HELM).values()
    assert set(crds) <= set(operator["DependsOn"])


def test_each_chart_waits_for_the_one_before_and_the_first_for_the_operator(ray: Template) -> None:
    names = ("Chartnamespace", "Chartstorage", "Chartstaging", "Chartsession", "Chartjob")
    manifests = resources_of(ray, MANIFEST)
    in_order = [next(name for name in manifests if name.startswith(start)) for start in names]
    assert len(manifests) == len(in_order)
    (operator,) = resources_of(ray, HELM)
    for before, name in zip([operator, *in_order], in_order, strict=False):
        assert before in manifests[name]["DependsOn"]


def test_manifests_are_applied_so_that_a_broken_attempt_can_be_repeated(ray: Template) -> None:
    for manifest in resources_of(ray, MANIFEST).values():
        assert manifest["Properties"]["Overwrite"] is True


def test_ray_comes_after_the_nodes_the_driver_and_the_image(
    walkthrough_dependencies: dict[str, set[str]],
) -> None:
    assert {"addons", "hyperpod", "storage", "registry", "cluster"} <= walkthrough_dependencies["ray"]


def test_volume_takes_its_address_from_the_file_system(ray: Template) -> None:
    storage = next(
        manifest for name, manifest in resources_of(ray, MANIFEST).items() if name.startswith("Chartstorage")
    )
    volume = next(each for each in objects_of(storage) if each["kind"] == "PersistentVolume")
    assert volume["spec"]["csi"]["volumeHandle"] == "?"
    assert "?" in volume["spec"]["csi"]["volumeAttributes"]["dnsname"]
    assert volume["spec"]["csi"]["volumeAttributes"]["mountname"] == "?"


def test_ray_pods_run_the_image_that_the_registry_stack_built(walkthrough: dict[str, Template]) -> None:
    tag = the_resource(walkthrough["registry"], "AWS::CloudFormation::CustomResource")["ImageTag"]
    job = next(
        manifest
        for name, manifest in resources_of(walkthrough["ray"], MANIFEST).items()
        if name.startswith("Chartjob")
    )
    (ray_job,) = (each for each in objects_of(job) if each["kind"] == "RayJob")
    head = ray_job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["image"].endswith(f":{tag}")


def staging_of(ray: Template) -> dict[str, Any]:
    return next(
        manifest for name, manifest in resources_of(ray, MANIFEST).items() if name.startswith("Chartstaging")
    )


def test_staging_job_is_named_after_the_image_that_it_runs(walkthrough: dict[str, Template]) -> None:
    tag = the_resource(walkthrough["registry"], "AWS::CloudFormation::CustomResource")["ImageTag"]
    (job,) = (each for each in objects_of(staging_of(walkthrough["ray"])) if each["kind"] == "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f":{tag}")


def test_staging_has_its_identity_before_its_pod_starts(ray: Template) -> None:
    (identity,) = resources_of(ray, "AWS::EKS::PodIdentityAssociation")
    assert identity in staging_of(ray)["DependsOn"]
    properties = resources_of(ray, "AWS::EKS::PodIdentityAssociation")[identity]["Properties"]
    assert (properties["Namespace"], properties["ServiceAccount"]) == ("ray", "staging")


def test_staging_may_read_its_sources_and_its_token_only() -> None:
    secret = "arn:aws:secretsmanager:us-east-2:111122223333:secret:hub-AbCdEf"
    hub = Artifact(source=f"hf://VisGym/visgym_model@{'ab' * 20}", folder="models/a")
    copy = Artifact(source="s3://models-of-ours/visgym/sft", folder="models/b")
    assert statements(Staging(artifacts=(hub,))) == []
    allowed = {
        action: resource
        for statement in statements(Staging(artifacts=(hub, copy), hub_token_secret_arn=secret))
        for action, resource in zip(statement.actions, statement.resources, strict=True)
    }
    assert allowed.keys() == {"s3:GetObject", "secretsmanager:GetSecretValue"}
    assert allowed["s3:GetObject"].endswith(":s3:::models-of-ours/visgym/sft/*")
    assert allowed["secretsmanager:GetSecretValue"] == secret


def test_the_walkthroughs_model_lies_where_it_is_staged() -> None:
    settings = load_settings()
    profiles = Path(__file__).parents[2] / "training" / "profiles"
    profile = yaml.safe_load((profiles / f"{settings.job.profile}.yaml").read_text())
    staged = {f"{SHARED_DIR}/{artifact.folder}" for artifact in settings.staging.artifacts}
    assert profile["trainer"]["model"] in staged


def with_studio() -> Settings:
    return load_settings().model_copy(update={"studio": Studio(enabled=True)})


def test_studio_is_off_unless_asked_for(walkthrough: dict[str, Template]) -> None:
    assert "studio" not in walkthrough


def test_studio_users_get_hyperpods_policies_in_their_scopes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    template = synthesize(with_studio(), tmp_path_factory.mktemp("studio"))["studio"]
    scopes = {
        text_of(policy["PolicyArn"]).rpartition("/")[2]: policy["AccessScope"]
        for policy in the_resource(template, "AWS::EKS::AccessEntry")["AccessPolicies"]
    }
    assert scopes == {
        "AmazonSagemakerHyperpodTrainingPolicy": {"Namespaces": ["ray"], "Type": "namespace"},
        "AmazonSagemakerHyperpodUserClusterPolicy": {"Type": "cluster"},
    }
    assert the_resource(template, "AWS::SageMaker::Domain")["AppNetworkAccessType"] == "VpcOnly"
