"""cdk-nag's AwsSolutions and NIST 800-53 r5 packs: every finding is fixed or has a row here, with a reason.

A row names one construct and the rules that it may break; whatever else the packs find fails the test, and
so does a row that nothing needs any more. The packs know neither `aws_eks_v2` clusters nor HyperPod, FSx for
Lustre and Managed Prometheus: test_security.py holds assertions of our own for those.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks

import app as application
from stacks.settings import CDK_JSON, load_settings

ROW_LIMIT = 15
FUNCTION = (
    "NIST.800.53.R5-LambdaConcurrency",
    "NIST.800.53.R5-LambdaDLQ",
    "NIST.800.53.R5-LambdaInsideVPC",
)
INLINE = "NIST.800.53.R5-IAMNoInlinePolicy"
IAM4, IAM5 = "AwsSolutions-IAM4", "AwsSolutions-IAM5"
BUCKET = (
    "AwsSolutions-S1",
    "NIST.800.53.R5-S3BucketLoggingEnabled",
    "NIST.800.53.R5-S3BucketReplicationEnabled",
    "NIST.800.53.R5-S3DefaultEncryptionKMS",
)
PROVIDER = (IAM4, IAM5, INLINE, *FUNCTION)
WAITING_PROVIDER = (*PROVIDER, "AwsSolutions-SF1", "AwsSolutions-SF2")
PROVIDER_REASON = (
    "CDK's provider framework and the handler that it calls, invoked by CloudFormation alone: it logs "
    "by a managed policy and invokes by function version; its failures reach CloudFormation, not a queue; "
    "reserved concurrency fails in a new account, whose limit is 10; it calls AWS's public APIs only"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """Rules that one construct, with what is inside it, may break."""

    construct: str
    rules: tuple[str, ...]
    reason: str


ACKNOWLEDGED = (
    Acknowledged(
        construct="network/Network/Vpc",
        rules=("NIST.800.53.R5-VPCNoUnrestrictedRouteToIGW", INLINE),
        reason="Public subnets hold the NAT gateway only; CDK writes the one policy of the flow log's role",
    ),
    Acknowledged(
        construct="network/Nodes/AllFromMembers",
        rules=("NIST.800.53.R5-EC2RestrictedCommonPorts",),
        reason="EFA demands all traffic between members of the group; nobody else is let in",
    ),
    Acknowledged(
        construct="storage/Artifacts/Bucket",
        rules=BUCKET,
        reason="Results of runs that can be made again: versioned, private, encrypted with S3's key, in one "
        "region; object-level access is CloudTrail's matter",
    ),
    Acknowledged(
        construct="registry/TrainingImage/Project",
        rules=(IAM5, INLINE, "AwsSolutions-CB4"),
        reason="CDK scopes the project's rights to its asset bucket, its report groups and its repository; "
        "registry login knows no resource; the image goes to the encrypted registry, no artifact is stored",
    ),
    Acknowledged(
        construct="registry/TrainingImage/Build/Provider", rules=WAITING_PROVIDER, reason=PROVIDER_REASON
    ),
    Acknowledged(
        construct="cluster/Kubernetes/Cluster/Role",
        rules=(IAM4,),
        reason="AmazonEKSClusterPolicy is what EKS documents for its own role",
    ),
    Acknowledged(
        construct="cluster/Kubernetes/Cluster/KubectlProvider",
        rules=(IAM4, IAM5, INLINE, "AwsSolutions-L1", *FUNCTION[:2]),
        reason="CDK's kubectl handler: roles, runtime and functions come with the library's version",
    ),
    Acknowledged(
        construct="cluster/Charts/Project",
        rules=(IAM5, INLINE),
        reason="CDK scopes the project's rights to its assets, its report group, the key and the network "
        "interfaces of its subnets",
    ),
    Acknowledged(construct="cluster/Charts/Provider", rules=WAITING_PROVIDER, reason=PROVIDER_REASON),
    Acknowledged(
        construct="hyperpod/ServiceLogs",
        rules=PROVIDER,
        reason=f"{PROVIDER_REASON}; it deletes log groups under the cluster's own prefix",
    ),
    Acknowledged(
        construct="hyperpod/Lifecycle/Bucket",
        rules=BUCKET,
        reason="One script without secrets, which a deploy uploads again; nodes read it before they have any "
        "key but S3's",
    ),
    Acknowledged(
        construct="hyperpod/Custom::CDKBucketDeployment8693BB64968944B69AAFB0CC9EB8756C",
        rules=(IAM4, IAM5, INLINE, "AwsSolutions-L1", *FUNCTION),
        reason="CDK's uploader: its role, its runtime and its function come with the library's version",
    ),
    Acknowledged(
        construct="hyperpod/Execution/Role",
        rules=(IAM4, IAM5, INLINE),
        reason="AmazonSageMakerClusterInstanceRolePolicy and the wildcards are what HyperPod documents for "
        "nodes; docs/security.md goes through each",
    ),
    Acknowledged(
        construct="hyperpod/Readiness/Nodes/Provider", rules=WAITING_PROVIDER, reason=PROVIDER_REASON
    ),
    Acknowledged(
        construct="observability/Addon/CollectorRole",
        rules=(IAM5, INLINE),
        reason="The collector writes log groups that HyperPod names after generated ids; log delivery and "
        "metric listing know no resource",
    ),
)


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Construct path without the deployment's name, to the rules that it breaks."""
    directory = tmp_path_factory.mktemp("nag")
    settings = load_settings()
    app = cdk.App(
        context=json.loads(CDK_JSON.read_text())["context"],
        outdir=str(directory),
        builtin_cloud_formation_validation=False,
    )
    application.compose(app, settings)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), NIST80053R5Checks(app))
    # With findings the synthesis raises after it wrote the report.
    with pytest.raises(RuntimeError, match="validation-report"):
        app.synth()
    return read_report(directory, prefix=f"{settings.name}-")


def read_report(directory: Path, *, prefix: str) -> dict[str, set[str]]:
    reports = json.loads((directory / "validation-report.json").read_text())["pluginReports"]
    found: dict[str, set[str]] = defaultdict(set)
    for violation in (violation for report in reports for violation in report["violations"]):
        rule = violation["ruleName"].partition("[")[0]
        for construct in violation["violatingConstructs"]:
            found[construct["constructPath"].removeprefix(prefix)].add(rule)
    return dict(found)


def covers(row: Acknowledged, construct: str, rule: str) -> bool:
    return rule in row.rules and f"{construct}/".startswith(f"{row.construct}/")


def test_no_finding_is_open(findings: dict[str, set[str]]) -> None:
    still_open = [
        f"{rule} at {construct}"
        for construct, rules in findings.items()
        for rule in rules
        if not any(covers(row, construct, rule) for row in ACKNOWLEDGED)
    ]
    assert still_open == []


@pytest.mark.parametrize("row", ACKNOWLEDGED, ids=lambda row: row.construct)
def test_every_acknowledgment_is_needed(findings: dict[str, set[str]], row: Acknowledged) -> None:
    unused = [
        rule
        for rule in row.rules
        if not any(covers(row, construct, rule) for construct, rules in findings.items() if rule in rules)
    ]
    assert unused == []


def test_acknowledgments_stay_few_and_have_reasons() -> None:
    assert len(ACKNOWLEDGED) <= ROW_LIMIT
    assert len({row.construct for row in ACKNOWLEDGED}) == len(ACKNOWLEDGED)
    assert all(len(row.reason) > 40 for row in ACKNOWLEDGED)
