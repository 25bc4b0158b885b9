"""Fourteen ways in which provisioning HyperPod has failed in practice, each excluded in the templates.

The packs of cdk-nag and cfn-lint see none of them. Every test names the failure in its docstring.
"""

import json
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from stacks.hyperpod_dependencies import SOURCE, dependency_values
from stacks.lifecycle_script import SOURCE as LIFECYCLE_FOLDER
from stacks.settings import Settings, load_settings
from tests.infra.conftest import Template, resources_of, the_resource

CLUSTER = "AWS::SageMaker::Cluster"
OLDEST_CNI = (1, 18, 3)


@pytest.fixture
def settings(environment: str) -> Settings:
    return load_settings(environment)


@pytest.fixture
def hyperpod(templates: dict[str, Template]) -> Any:
    return the_resource(templates["hyperpod"], CLUSTER)


@pytest.fixture
def chart_values(templates: dict[str, Template]) -> Any:
    return json.loads(the_resource(templates["cluster"], "Custom::HelmRelease")["Values"])


def gpu_types(values: dict[str, Any]) -> list[str]:
    affinity = values["nvidia-device-plugin"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("node.kubernetes.io/instance-type", "In")
    return list(expression["values"])


def test_1_all_traffic_between_members_is_allowed_explicitly_both_ways(
    templates: dict[str, Template],
) -> None:
    """EFA health checks fail: the security group lacks a self rule; 0.0.0.0/0 does not stand in for it."""
    network = templates["network"]
    (group_id,) = resources_of(network, "AWS::EC2::SecurityGroup")
    member = {"Fn::GetAtt": [group_id, "GroupId"]}
    for rule_type, peer in (
        ("AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId"),
        ("AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId"),
    ):
        rules = [rule["Properties"] for rule in resources_of(network, rule_type).values()]
        assert [
            rule for rule in rules if rule["GroupId"] == rule[peer] == member and rule["IpProtocol"] == "-1"
        ], rule_type


def test_2_nobody_outside_the_group_comes_in(templates: dict[str, Template]) -> None:
    """A rule for EFA written with 0.0.0.0/0 works, and opens every node."""
    rules = resources_of(templates["network"], "AWS::EC2::SecurityGroupIngress").values()
    assert all("SourceSecurityGroupId" in rule["Properties"] for rule in rules)
    group = the_resource(templates["network"], "AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in group


def test_3_threads_per_core_is_explicit(hyperpod: Any) -> None:
    """A pod for a whole node never fits: the default ran one thread per core and halved the CPUs."""
    assert [group["ThreadsPerCore"] for group in hyperpod["InstanceGroups"]] == [2, 2]


def test_4_the_lifecycle_script_is_where_nodes_look_for_it(
    hyperpod: Any, templates: dict[str, Template]
) -> None:
    """Nodes fail at once: bucket outside sagemaker-*, prefix or file name that does not match the upload."""
    bucket = the_resource(templates["hyperpod"], "AWS::S3::Bucket")
    assert bucket["BucketName"]["Fn::Join"][1][0].startswith("sagemaker-")
    upload = the_resource(templates["hyperpod"], "Custom::CDKBucketDeployment")
    for group in hyperpod["InstanceGroups"]:
        config = group["LifeCycleConfig"]
        scheme, bucket_reference, path = config["SourceS3Uri"]["Fn::Join"][1]
        assert (scheme, bucket_reference) == ("s3://", upload["DestinationBucketName"])
        assert path == f"/{upload['DestinationBucketKeyPrefix']}"
        assert (LIFECYCLE_FOLDER / config["OnCreate"]).is_file()


def test_5_every_gpu_type_is_in_the_nvidia_plugins_list(settings: Settings, chart_values: Any) -> None:
    """Nodes without nvidia.com/gpu: the chart's list did not know the instance type."""
    wanted = {group.instance_type for group in settings.instance_groups if group.type.gpus}
    assert set(gpu_types(chart_values)) == wanted


def test_6_the_efa_plugin_runs_exactly_where_efa_is(settings: Settings, chart_values: Any) -> None:
    """No vpc.amazonaws.com/efa, or a plugin that fails in a loop on r5d and small g7e."""
    plugin = chart_values["aws-efa-k8s-device-plugin"]
    types = {group.instance_type for group in settings.instance_groups if group.type.efa_interfaces}
    assert set(plugin["supportedInstanceLabels"]["values"]) == types
    assert plugin["devicePlugin"]["enabled"] == bool(types)


def test_7_the_chart_is_pinned_by_commit_and_told_its_region(settings: Settings, chart_values: Any) -> None:
    """A moved tag; an agent whose image is pulled from a guessed region, because no node tells it."""
    assert len(SOURCE.commit) == 40
    assert chart_values["health-monitoring-agent"]["region"] == settings.region
    assert chart_values["global"]["region"] == settings.region


def test_8_the_node_subnet_holds_every_pod_address(
    settings: Settings, templates: dict[str, Template]
) -> None:
    """Pods without addresses: the subnet was sized for nodes, not for what runs on them."""
    (subnet,) = [
        subnet["Properties"]
        for name, subnet in resources_of(templates["network"], "AWS::EC2::Subnet").items()
        if "NodeSubnet" in name
    ]
    assert ip_network(subnet["CidrBlock"]).num_addresses - 5 > settings.pod_addresses
    assert subnet["AvailabilityZoneId"] == settings.network.hyperpod_zone_id


def test_9_every_node_and_the_file_system_share_one_subnet(
    hyperpod: Any, templates: dict[str, Template]
) -> None:
    """EFA traffic cannot leave a zone: groups spread over two, or storage in the other one."""
    configurations = [hyperpod["VpcConfig"], *(g["OverrideVpcConfig"] for g in hyperpod["InstanceGroups"])]
    subnets = [configuration["Subnets"] for configuration in configurations]
    assert all(each == subnets[0] for each in subnets)
    assert len(subnets[0]) == 1
    assert the_resource(templates["storage"], "AWS::FSx::FileSystem")["SubnetIds"] == subnets[0]


def test_10_control_plane_nodes_and_storage_share_the_security_group(
    hyperpod: Any, templates: dict[str, Template]
) -> None:
    """Webhooks and kubectl logs time out: control plane and nodes are in groups that do not mix."""
    (group,) = hyperpod["VpcConfig"]["SecurityGroupIds"]
    kubernetes = the_resource(templates["cluster"], "AWS::EKS::Cluster")
    assert group in kubernetes["ResourcesVpcConfig"]["SecurityGroupIds"]
    assert the_resource(templates["storage"], "AWS::FSx::FileSystem")["SecurityGroupIds"] == [group]


def test_11_eks_runs_in_the_mode_that_hyperpod_accepts(templates: dict[str, Template]) -> None:
    """Creation refused: CONFIG_MAP authentication, Auto Mode, or self-managed add-ons in the way of EKS's."""
    kubernetes = the_resource(templates["cluster"], "AWS::EKS::Cluster")
    assert kubernetes["AccessConfig"]["AuthenticationMode"] == "API"
    assert kubernetes["ComputeConfig"] == {"Enabled": False}
    assert kubernetes["BootstrapSelfManagedAddons"] is False


def test_12_add_ons_are_pinned_and_the_cni_is_new_enough(templates: dict[str, Template]) -> None:
    """HyperPod supports the VPC CNI from 1.18.3 on; an unpinned add-on differs between two deploys."""
    addons = {
        addon["Properties"]["AddonName"]: addon["Properties"]["AddonVersion"]
        for part in ("cluster", "addons")
        for addon in resources_of(templates[part], "AWS::EKS::Addon").values()
    }
    version = addons["vpc-cni"].removeprefix("v").partition("-")[0]
    assert tuple(map(int, version.split("."))) >= OLDEST_CNI
    assert set(addons) == {
        "vpc-cni",
        "kube-proxy",
        "eks-pod-identity-agent",
        "coredns",
        "cert-manager",
        "metrics-server",
        "aws-fsx-csi-driver",
    }


def test_13_add_ons_that_need_nodes_come_in_a_later_stack(templates: dict[str, Template]) -> None:
    """A deploy hangs on coredns: EKS reports it degraded until a node exists. The order: test_order.py."""
    early = {
        a["Properties"]["AddonName"] for a in resources_of(templates["cluster"], "AWS::EKS::Addon").values()
    }
    assert early == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}


def test_14_faulty_nodes_are_replaced_and_missing_ones_do_not_fail_the_others(hyperpod: Any) -> None:
    """All-or-nothing provisioning rolls every node back for one that does not come."""
    assert (hyperpod["NodeRecovery"], hyperpod["NodeProvisioningMode"]) == ("Automatic", "Continuous")


class TestChartValues:
    """The values of HyperPod's dependency chart for settings other than those of cdk.json."""

    def values(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        settings = load_settings()
        environment = json.loads(settings.model_dump_json())
        change(environment)
        changed = Settings.model_validate_json(json.dumps(environment))
        return dependency_values(region=changed.region, instance_groups=changed.instance_groups)

    def test_small_g7e_gets_the_nvidia_plugin_and_no_efa_plugin(self) -> None:
        values = self.values(lambda e: e["instance_groups"][0].update(instance_type="ml.g7e.4xlarge"))
        assert gpu_types(values) == ["ml.g7e.4xlarge"]
        assert values["aws-efa-k8s-device-plugin"]["devicePlugin"] == {"enabled": False}

    def test_plugins_tolerate_the_groups_own_taints(self) -> None:
        taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        values = self.values(lambda e: e["instance_groups"][0].update(taints=[taint]))
        for plugin in ("nvidia-device-plugin", "aws-efa-k8s-device-plugin"):
            tolerated = {toleration["key"] for toleration in values[plugin]["tolerations"]}
            assert tolerated == {"nvidia.com/gpu", "sagemaker.amazonaws.com/node-health-status"}

    def test_what_ray_does_not_use_is_off(self) -> None:
        values = self.values(lambda _: None)
        for part in ("trainingOperators", "mpi-operator", "gpu-operator", "cert-manager", "job-auto-restart"):
            assert values[part] == {"enabled": False}
