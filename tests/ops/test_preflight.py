"""Preflight against an account in order, and against the same account with one fault planted at a time."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from typer.testing import CliRunner

from ops import preflight
from ops.__main__ import app
from ops.checks.model import Context, Finding, Status
from ops.checks.software import ADDON_NAMES
from stacks.addon_versions import ADDON_VERSIONS
from stacks.settings import CDK_JSON, Settings, parse_settings

from .aws_stub import ACCOUNT, Answer, Answers, StubbedAws, refusal

NOW = datetime(2026, 12, 1, 16, tzinfo=UTC)
PLAN = "arn:aws:sagemaker:us-east-2:111122223333:training-plan/ours"
SECRET = "arn:aws:secretsmanager:us-east-2:111122223333:secret:hub-AbCdEf"
NOT_FOUND = {"eks.DescribeCluster": refusal("ResourceNotFoundException"), "s3.HeadBucket": refusal("404")}


def settings_with(**changes: Any) -> Settings:
    """The walkthrough with a real digest and a ceiling, and top-level sections replaced or extended."""
    environments = json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"]["environments"]
    environment = environments["walkthrough"]
    environment["image"] = {"base_image": f"registry.example/base@sha256:{'ab' * 32}"}
    model = {"source": f"hf://VisGym/visgym_model@{'ab' * 20}/mixed", "folder": "models/visgym/mixed_qwen3vl"}
    environment["staging"] = {"artifacts": [model]}
    environment["cost_ceiling_usd_per_hour"] = 50
    environment["kubernetes"] = {"public_access_cidrs": ["198.51.100.0/24"]}
    return parse_settings(environment | changes)


def quotas(values: Mapping[str, float]) -> Mapping[str, Any]:
    return {"Quotas": [{"QuotaName": name, "Value": value} for name, value in values.items()]}


SAGEMAKER_QUOTAS: dict[str, float] = {
    "ml.g7e.12xlarge for cluster usage": 4,
    "ml.r5d.16xlarge for cluster usage": 2,
    "Maximum number of instances allowed per SageMaker HyperPod cluster": 20,
    "Total number of instances allowed across SageMaker HyperPod clusters": 20,
}
LUSTRE_QUOTA = {"Lustre Persistent 2 SSD storage capacity": 100_000.0}


def service_quotas(sagemaker: Mapping[str, float]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda params: quotas(sagemaker if params["ServiceCode"] == "sagemaker" else LUSTRE_QUOTA)


def offered_addons(params: Mapping[str, Any]) -> Mapping[str, Any]:
    field = next(field for field, name in ADDON_NAMES.items() if name == params["addonName"])
    version = getattr(ADDON_VERSIONS[params["kubernetesVersion"]], field)
    return {"addons": [{"addonName": params["addonName"], "addonVersions": [{"addonVersion": version}]}]}


def decisions(decision: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def decide(params: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = [{"EvalActionName": name, "EvalDecision": decision} for name in params["ActionNames"]]
        return {"EvaluationResults": rows}

    return decide


def zones(*names: str) -> Mapping[str, Any]:
    return {"AvailabilityZones": [{"ZoneId": name, "State": "available"} for name in names]}


def offers(*pairs: tuple[str, str]) -> Mapping[str, Any]:
    return {"InstanceTypeOfferings": [{"Location": zone, "InstanceType": name} for zone, name in pairs]}


def versions(status: str) -> Mapping[str, Any]:
    rows = [("1.34", status), ("1.33", "STANDARD_SUPPORT")]
    return {"clusterVersions": [{"clusterVersion": name, "versionStatus": value} for name, value in rows]}


GOOD: Answers = {
    "sts.GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/admin/me"},
    "ec2.DescribeRegions": {"Regions": [{"RegionName": "us-east-2", "OptInStatus": "opt-in-not-required"}]},
    "ssm.GetParameter": {"Parameter": {"Value": "30"}},
    "iam.SimulatePrincipalPolicy": decisions("allowed"),
    "iam.GetRole": {
        "Role": {"Path": "/", "RoleName": "r", "RoleId": "r" * 16, "Arn": "a" * 20, "CreateDate": NOW}
    },
    "service-quotas.ListServiceQuotas": service_quotas(SAGEMAKER_QUOTAS),
    "service-quotas.ListAWSDefaultServiceQuotas": quotas(dict.fromkeys(SAGEMAKER_QUOTAS, 0)),
    "service-quotas.GetServiceQuota": {"Quota": {"Value": 500}},
    "ec2.DescribeAvailabilityZones": zones("use2-az1", "use2-az2", "use2-az3"),
    "ec2.DescribeInstanceTypeOfferings": offers(("use2-az1", "g7e.12xlarge"), ("use2-az1", "r5d.16xlarge")),
    "ec2.DescribeVpcs": {"Vpcs": []},
    "ec2.DescribeAddresses": {"Addresses": []},
    "ec2.DescribeNetworkInterfaces": {"NetworkInterfaces": []},
    "fsx.DescribeFileSystems": {"FileSystems": []},
    "eks.DescribeClusterVersions": versions("STANDARD_SUPPORT"),
    "eks.DescribeAddonVersions": offered_addons,
    "cloudformation.DescribeStacks": {"Stacks": []},
    "logs.DescribeLogGroups": {"logGroups": []},
    "sagemaker.ListClusters": {"ClusterSummaries": []},
    **NOT_FOUND,
}


def findings(answers: Answers, settings: Settings) -> list[Finding]:
    return preflight.run_checks(Context(settings=settings, aws=StubbedAws(answers), now=NOW))


def stack(name: str, status: str) -> Mapping[str, Any]:
    return {"Stacks": [{"StackName": name, "StackStatus": status, "CreationTime": NOW}]}


def hyperpod(name: str) -> Mapping[str, Any]:
    arn = f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:cluster/abcdefghijkl"
    row = {"ClusterArn": arn, "ClusterName": name, "CreationTime": NOW, "ClusterStatus": "InService"}
    return {"ClusterSummaries": [row]}


def plan(**changes: Any) -> Mapping[str, Any]:
    capacity = {
        "ReservedCapacityArn": f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:reserved-capacity/{'a' * 14}",
        "InstanceType": "ml.g7e.12xlarge",
        "TotalInstanceCount": 3,
        "Status": "Active",
        "AvailabilityZoneId": "use2-az1",
    }
    return {
        "TrainingPlanArn": PLAN,
        "TrainingPlanName": "ours",
        "Status": "Active",
        "EndTime": datetime(2027, 1, 1, tzinfo=UTC),
        "ReservedCapacitySummaries": [capacity | changes.pop("capacity", {})],
        **changes,
    }


def planned_groups() -> list[dict[str, Any]]:
    gpu = {"name": "gpu-workers", "instance_type": "ml.g7e.12xlarge", "instance_count": 3}
    head = {"name": "cpu-head", "instance_type": "ml.r5d.16xlarge", "instance_count": 1}
    return [gpu | {"training_plan_arn": PLAN}, head]


PLANNED = {"instance_groups": planned_groups()}
SSO = {"observability": {"grafana_authentication": "identity-center"}}
OPEN_IMAGE = {"image": {"base_image": f"registry.example/base@sha256:{'0' * 64}"}}
OPEN_MODEL = {"staging": {"artifacts": [{"source": f"hf://owner/model@{'0' * 40}", "folder": "m"}]}}

# What is wrong, answers that say so, settings that make it matter, the check, and what its finding must say.
FAULTS: list[tuple[str, dict[str, Answer], dict[str, Any], str, str]] = [
    (
        "not signed in",
        {"sts.GetCallerIdentity": NoCredentialsError()},
        {},
        "credentials",
        "aws sso login",
    ),
    (
        "region off",
        {"ec2.DescribeRegions": {"Regions": [{"RegionName": "us-east-2", "OptInStatus": "not-opted-in"}]}},
        {},
        "region",
        "Enable us-east-2",
    ),
    (
        "no bootstrap",
        {"ssm.GetParameter": refusal("ParameterNotFound")},
        {},
        "cdk-bootstrap",
        "cdk bootstrap",
    ),
    (
        "old bootstrap",
        {"ssm.GetParameter": {"Parameter": {"Value": "5"}}},
        {},
        "cdk-bootstrap",
        "older than 6",
    ),
    (
        "caller too weak",
        {"iam.SimulatePrincipalPolicy": decisions("implicitDeny")},
        {},
        "caller-permissions",
        "sts:AssumeRole",
    ),
    (
        "deployer too weak",
        {"iam.SimulatePrincipalPolicy": decisions("explicitDeny")},
        {},
        "deploy-permissions",
        "sagemaker:CreateCluster",
    ),
    ("no such principal", {"iam.GetRole": refusal("NoSuchEntity")}, {}, "principals", "role/platform-admin"),
    (
        "someone else's principal",
        {"sts.GetCallerIdentity": {"Account": "4" * 12, "Arn": f"arn:aws:iam::{'4' * 12}:user/me"}},
        {},
        "principals",
        "not in account 444444444444",
    ),
    ("no digest", {}, OPEN_IMAGE, "pins", "ops pin"),
    ("no commit", {}, OPEN_MODEL, "pins", "ops pin"),
    (
        "no instances",
        {"service-quotas.ListServiceQuotas": service_quotas({"ml.r5d.16xlarge for cluster usage": 1})},
        {},
        "instance-quotas",
        '"ml.g7e.12xlarge for cluster usage" is 0, needed are 3',
    ),
    (
        "cluster too small",
        {
            "service-quotas.ListServiceQuotas": service_quotas(
                SAGEMAKER_QUOTAS | {"Maximum number of instances allowed per SageMaker HyperPod cluster": 3}
            )
        },
        {},
        "cluster-quotas",
        "is 3, needed are 4",
    ),
    (
        "no such zone",
        {"ec2.DescribeAvailabilityZones": zones("use2-az2", "use2-az3")},
        {},
        "zones",
        "use2-az2, use2-az3",
    ),
    (
        "zone without the type",
        {
            "ec2.DescribeInstanceTypeOfferings": offers(
                ("use2-az1", "r5d.16xlarge"), ("use2-az3", "g7e.12xlarge"), ("use2-az3", "r5d.16xlarge")
            )
        },
        {},
        "zone-offers",
        "Use network.hyperpod_zone_id: use2-az3.",
    ),
    (
        "plan over",
        {"sagemaker.DescribeTrainingPlan": plan(Status="Expired")},
        PLANNED,
        "training-plans",
        "Expired",
    ),
    (
        "plan elsewhere",
        {"sagemaker.DescribeTrainingPlan": plan(capacity={"AvailabilityZoneId": "use2-az3"})},
        PLANNED,
        "training-plans",
        "lies in use2-az3",
    ),
    (
        "plan too short",
        {"sagemaker.DescribeTrainingPlan": plan(EndTime=datetime(2026, 12, 2, tzinfo=UTC))},
        PLANNED,
        "training-plans",
        "ends on 2026-12-02",
    ),
    (
        "plan too small",
        {"sagemaker.DescribeTrainingPlan": plan(TotalInstanceCount=2)},
        PLANNED,
        "training-plans",
        "reserves 2 instances",
    ),
    (
        "plan of another type",
        {"sagemaker.DescribeTrainingPlan": plan(capacity={"InstanceType": "ml.p5.48xlarge"})},
        PLANNED,
        "training-plans",
        "reserves ml.p5.48xlarge",
    ),
    (
        "no such plan",
        {"sagemaker.DescribeTrainingPlan": refusal("ResourceNotFound", "no plan")},
        PLANNED,
        "training-plans",
        "no plan",
    ),
    ("too expensive", {}, {"cost_ceiling_usd_per_hour": 20}, "cost-ceiling", "above the ceiling of $20.00"),
    (
        "no room for a VPC",
        {"service-quotas.GetServiceQuota": {"Quota": {"Value": 0}}},
        {},
        "network-limits",
        "quota L-F678F1CE",
    ),
    (
        "no room for the file system",
        {
            "service-quotas.ListServiceQuotas": lambda params: quotas(
                SAGEMAKER_QUOTAS
                if params["ServiceCode"] == "sagemaker"
                else {"Lustre Persistent 2 SSD storage capacity": 1200}
            )
        },
        {},
        "lustre-storage",
        "2400 more needed",
    ),
    (
        "Kubernetes version gone",
        {"eks.DescribeClusterVersions": versions("UNSUPPORTED")},
        {},
        "kubernetes-version",
        "kubernetes.version among: 1.33",
    ),
    (
        "add-on version gone",
        {
            "eks.DescribeAddonVersions": {
                "addons": [{"addonName": "x", "addonVersions": [{"addonVersion": "v9.9.9-eksbuild.1"}]}]
            }
        },
        {},
        "addon-versions",
        "Newest is v9.9.9-eksbuild.1",
    ),
    ("no Identity Center", {"sso-admin.ListInstances": {"Instances": []}}, SSO, "identity-center", '"saml"'),
    (
        "no token",
        {"secretsmanager.DescribeSecret": refusal("ResourceNotFoundException")},
        {"staging": {"hub_token_secret_arn": SECRET}},
        "hub-token",
        "no secret arn:aws:secretsmanager",
    ),
    (
        "token deleted",
        {"secretsmanager.DescribeSecret": {"Name": "hub", "DeletedDate": NOW}},
        {"staging": {"hub_token_secret_arn": SECRET}},
        "hub-token",
        "restore-secret",
    ),
    (
        "stack stuck",
        {"cloudformation.DescribeStacks": stack("maze-grpo-network", "ROLLBACK_COMPLETE")},
        {},
        "stacks",
        "ops teardown",
    ),
    (
        "stack busy",
        {"cloudformation.DescribeStacks": stack("maze-grpo-network", "UPDATE_IN_PROGRESS")},
        {},
        "stacks",
        "Wait for it",
    ),
    (
        "EKS name taken",
        {"eks.DescribeCluster": {"cluster": {"name": "maze-grpo"}}},
        {},
        "names",
        "EKS cluster maze-grpo exists",
    ),
    (
        "HyperPod name taken",
        {"sagemaker.ListClusters": hyperpod("maze-grpo")},
        {},
        "names",
        "HyperPod cluster",
    ),
    (
        "bucket left behind",
        {"s3.HeadBucket": {}},
        {},
        "names",
        "bucket sagemaker-maze-grpo-111122223333-us-east-2",
    ),
    (
        "log group left behind",
        {"logs.DescribeLogGroups": {"logGroups": [{"logGroupName": "/aws/eks/maze-grpo/cluster"}]}},
        {},
        "names",
        "log group /aws/eks/maze-grpo/cluster",
    ),
]


def test_an_account_in_order_passes_every_check() -> None:
    found = findings(GOOD, settings_with())
    assert [finding for finding in found if finding.status is not Status.PASS] == []
    assert len({finding.check for finding in found}) == len(preflight.CHECKS) >= 12
    assert preflight.exit_code(found) == 0


def test_no_check_changes_anything() -> None:
    aws = StubbedAws(GOOD)
    preflight.run_checks(Context(settings=settings_with(), aws=aws, now=NOW))
    verbs = ("Get", "Describe", "List", "Simulate", "Head")
    assert aws.calls
    assert [name for name, _ in aws.calls if not name.split(".")[1].startswith(verbs)] == []


@pytest.mark.parametrize(
    ("answers", "changes", "check", "text"),
    [fault[1:] for fault in FAULTS],
    ids=[fault[0] for fault in FAULTS],
)
def test_a_planted_fault_fails_its_check_and_says_what_to_do(
    answers: dict[str, Answer], changes: dict[str, Any], check: str, text: str
) -> None:
    found = findings({**GOOD, **answers}, settings_with(**changes))
    (fault, *_) = [row for row in found if row.check == check and row.status is Status.FAIL]
    assert text in f"{fault.detail} {fault.remedy}"
    assert fault.remedy
    assert preflight.exit_code(found) == 1


def test_a_plan_that_fits_passes() -> None:
    found = findings({**GOOD, "sagemaker.DescribeTrainingPlan": plan()}, settings_with(**PLANNED))
    assert preflight.exit_code(found) == 0


def test_a_token_that_exists_passes() -> None:
    answers = {**GOOD, "secretsmanager.DescribeSecret": {"Name": "hub"}}
    settings = settings_with(staging={"hub_token_secret_arn": SECRET, "artifacts": []})
    assert preflight.exit_code(findings(answers, settings)) == 0


def test_without_credentials_the_checks_that_need_them_are_one_line() -> None:
    found = findings({**GOOD, "sts.GetCallerIdentity": NoCredentialsError()}, settings_with())
    assert [row.check for row in found if row.status is Status.FAIL] == ["credentials"]
    (missed,) = [row for row in found if row.status is Status.UNKNOWN]
    assert "instance-quotas" in missed.detail
    assert {"pins", "cost-ceiling"} <= {row.check for row in found if row.status is Status.PASS}


def test_a_neighbour_with_a_longer_name_is_no_collision() -> None:
    answers = {
        "sagemaker.ListClusters": hyperpod("maze-grpo-2"),
        "cloudformation.DescribeStacks": stack("maze-grpo-2-network", "DELETE_FAILED"),
        "logs.DescribeLogGroups": {"logGroups": [{"logGroupName": "/aws/eks/maze-grpo/cluster-2"}]},
    }
    assert preflight.exit_code(findings({**GOOD, **answers}, settings_with())) == 0


def test_a_check_that_is_not_allowed_is_unknown_and_names_the_permission() -> None:
    answers = {**GOOD, "ec2.DescribeInstanceTypeOfferings": refusal("UnauthorizedOperation")}
    found = findings(answers, settings_with())
    (row,) = [finding for finding in found if finding.status is Status.UNKNOWN]
    assert (row.check, row.remedy) == (
        "zone-offers",
        "Allow DescribeInstanceTypeOfferings to the caller, then repeat.",
    )
    assert preflight.exit_code(found) == 2


def test_the_applied_quota_wins_over_the_default() -> None:
    defaults = quotas(dict.fromkeys(SAGEMAKER_QUOTAS, 1000))
    answers: Answers = {
        "service-quotas.ListAWSDefaultServiceQuotas": defaults,
        "service-quotas.ListServiceQuotas": service_quotas({"ml.g7e.12xlarge for cluster usage": 1}),
    }
    found = findings({**GOOD, **answers}, settings_with())
    assert [row.check for row in found if row.status is Status.FAIL] == ["instance-quotas"]


def test_the_command_speaks_json_and_its_exit_code_tells_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "Aws", lambda region: StubbedAws(GOOD, region))
    result = CliRunner().invoke(app, ["preflight", "--json"])
    rows = json.loads(result.stdout)
    # The shipped walkthrough has a placeholder for the digest of its base image.
    assert [row["check"] for row in rows if row["status"] == "fail"] == ["pins", "pins"]
    assert result.exit_code == 1


def test_people_get_a_line_per_finding_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "Aws", lambda region: StubbedAws(GOOD, region))
    output = CliRunner().invoke(app, ["preflight"]).stdout
    assert "FAIL" in output
    assert "-> Run `python -m ops pin`" in output
    assert "2 fail" in output
