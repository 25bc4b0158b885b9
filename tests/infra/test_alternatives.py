"""What the environments of cdk.json leave unused, in one more that is synthesized once."""

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.settings import CDK_JSON, parse_settings
from tests.infra.conftest import Template, resources_of, synthesize, the_resource
from tests.infra.test_security import undocumented_wildcards

PLAN = "arn:aws:sagemaker:us-east-2:111122223333:training-plan/gpus"
GROUPS = [
    {
        "name": "gpu-workers",
        "instance_type": "ml.p5.48xlarge",
        "instance_count": 2,
        "training_plan_arn": PLAN,
        "training_plan_instances": 2,
        "deep_health_checks": True,
        "labels": {"team": "rl"},
        "ebs_volume_gib": 1000,
    },
    {
        "name": "spot-workers",
        "instance_type": "ml.g7e.2xlarge",
        "instance_count": 0,
        "capacity": "spot",
        "threads_per_core": 1,
        "taints": [{"key": "nvidia.com/gpu", "value": "present"}],
    },
    {"name": "cpu-head", "instance_type": "ml.r5d.16xlarge", "instance_count": 1},
]


@pytest.fixture(scope="module")
def alternatives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    environment = json.loads(CDK_JSON.read_text())["context"]["environments"]["walkthrough"]
    environment |= {
        "kubernetes": {"version": "1.33", "endpoint_access": "private"},
        "instance_groups": GROUPS,
        "removal": "retain",
        "log_retention_days": 90,
        "node_timeout_minutes": 300,
        "observability": {"grafana_authentication": "saml"},
        "studio": {"enabled": True},
    }
    environment["network"]["interface_endpoints"] = True
    environment["network"]["control_plane_zone_ids"].append("use2-az3")
    directory: Path = tmp_path_factory.mktemp("alternatives")
    return synthesize(parse_settings(environment), directory)


@pytest.fixture
def groups(alternatives: dict[str, Template]) -> dict[str, Any]:
    cluster = the_resource(alternatives["hyperpod"], "AWS::SageMaker::Cluster")
    return {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}


def test_any_list_of_groups_becomes_instance_groups(groups: dict[str, Any]) -> None:
    assert {name: group["InstanceCount"] for name, group in groups.items()} == {
        "gpu-workers": 2,
        "spot-workers": 0,
        "cpu-head": 1,
    }


def test_a_training_plan_pays_for_its_group_only(groups: dict[str, Any]) -> None:
    assert [group.get("TrainingPlanArn") for group in groups.values()] == [PLAN, None, None]


def test_spot_is_asked_for_its_group_only(groups: dict[str, Any]) -> None:
    capacity = [group.get("CapacityRequirements") for group in groups.values()]
    assert capacity == [None, {"Spot": {}}, None]


def test_deep_health_checks_run_on_start_where_asked(groups: dict[str, Any]) -> None:
    checks = [group.get("OnStartDeepHealthChecks") for group in groups.values()]
    assert checks == [["InstanceStress", "InstanceConnectivity"], None, None]


def test_labels_taints_threads_and_disk_reach_their_group(groups: dict[str, Any]) -> None:
    assert groups["gpu-workers"]["KubernetesConfig"] == {"Labels": {"team": "rl"}}
    assert groups["spot-workers"]["KubernetesConfig"] == {
        "Taints": [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NoSchedule"}]
    }
    assert "KubernetesConfig" not in groups["cpu-head"]
    assert [group["ThreadsPerCore"] for group in groups.values()] == [2, 1, 2]
    (disk,) = groups["gpu-workers"]["InstanceStorageConfigs"]
    assert disk == {"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}


def test_the_waiter_knows_every_group_and_its_own_limit(alternatives: dict[str, Template]) -> None:
    (waiter,) = [
        resource["Properties"]
        for resource in alternatives["hyperpod"]["Resources"].values()
        if "InstanceGroups" in resource["Properties"] and "TimeoutSeconds" in resource["Properties"]
    ]
    assert waiter["InstanceGroups"] == {"gpu-workers": 2, "spot-workers": 0, "cpu-head": 1}
    assert waiter["TimeoutSeconds"] == 300 * 60


def test_a_private_api_server_is_not_public(alternatives: dict[str, Template]) -> None:
    access = the_resource(alternatives["cluster"], "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert (access["EndpointPrivateAccess"], access["EndpointPublicAccess"]) == (True, False)


def test_the_kubernetes_version_chooses_the_add_on_versions(alternatives: dict[str, Template]) -> None:
    assert the_resource(alternatives["cluster"], "AWS::EKS::Cluster")["Version"] == "1.33"
    addons = resources_of(alternatives["cluster"], "AWS::EKS::Addon").values()
    versions = {addon["Properties"]["AddonName"]: addon["Properties"]["AddonVersion"] for addon in addons}
    assert versions["kube-proxy"].startswith("v1.33.")


def test_one_more_zone_and_other_nodes_move_no_subnet(
    alternatives: dict[str, Template], walkthrough: dict[str, Template]
) -> None:
    before, after = (
        {
            name: (subnet["Properties"]["CidrBlock"], subnet["Properties"]["AvailabilityZoneId"])
            for name, subnet in resources_of(templates["network"], "AWS::EC2::Subnet").items()
        }
        for templates in (walkthrough, alternatives)
    )
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2


def test_interface_endpoints_admit_https_from_the_whole_vpc(alternatives: dict[str, Template]) -> None:
    network = alternatives["network"]
    endpoints = [e["Properties"] for e in resources_of(network, "AWS::EC2::VPCEndpoint").values()]
    interfaces = [e for e in endpoints if e["VpcEndpointType"] == "Interface"]
    services = {str(e["ServiceName"]).rpartition("us-east-2.")[2].rstrip("'}]") for e in interfaces}
    needed = {
        "sts",
        "ecr.api",
        "ecr.dkr",
        "eks-auth",
        "ssm",
        "logs",
        "ec2",
        "sagemaker.api",
        "aps-workspaces",
    }
    assert needed <= services
    (group_id,) = {str(e["SecurityGroupIds"]) for e in interfaces}
    (group,) = [
        g["Properties"]
        for name, g in resources_of(network, "AWS::EC2::SecurityGroup").items()
        if name in group_id
    ]
    (rule,) = group["SecurityGroupIngress"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_what_holds_data_is_retained_when_asked(alternatives: dict[str, Template]) -> None:
    kept_types = {"AWS::Logs::LogGroup", "AWS::KMS::Key", "AWS::S3::Bucket", "AWS::ECR::Repository"}
    for part, template in alternatives.items():
        if part == "storage":  # has a removal setting of its own
            continue
        for name, resource in template["Resources"].items():
            if resource["Type"] in kept_types and not name.startswith("LifecycleBucket"):
                assert resource["DeletionPolicy"] == "Retain", f"{part}/{name}"


def test_hyperpods_own_logs_stay_when_asked_and_the_script_never_does(
    alternatives: dict[str, Template],
) -> None:
    hyperpod = alternatives["hyperpod"]
    (logs,) = resources_of(hyperpod, "Custom::ServiceLogs").values()
    (bucket,) = resources_of(hyperpod, "AWS::S3::Bucket").values()
    assert (logs["DeletionPolicy"], bucket["DeletionPolicy"]) == ("Retain", "Delete")


def test_logs_are_kept_as_long_as_asked(alternatives: dict[str, Template]) -> None:
    for template in alternatives.values():
        for name, group in resources_of(template, "AWS::Logs::LogGroup").items():
            assert group["Properties"]["RetentionInDays"] == 90, name


def test_optional_stacks_have_no_unexplained_wildcards(alternatives: dict[str, Template]) -> None:
    assert {"studio", "observability"} <= set(alternatives)
    assert undocumented_wildcards(alternatives) == []
