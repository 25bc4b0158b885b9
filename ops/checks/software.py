"""Versions that EKS offers, and what people sign in with."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.aws import error_code
from ops.checks.model import Check, Context, Outcome, failed, passed, warning
from stacks.addon_versions import ADDON_VERSIONS
from stacks.settings import GrafanaAuthentication

ADDON_NAMES = {
    "vpc_cni": "vpc-cni",
    "kube_proxy": "kube-proxy",
    "coredns": "coredns",
    "pod_identity_agent": "eks-pod-identity-agent",
    "cert_manager": "cert-manager",
    "metrics_server": "metrics-server",
    "fsx_csi_driver": "aws-fsx-csi-driver",
}
OBSERVABILITY_ADDON = "amazon-sagemaker-hyperpod-observability"


def kubernetes_version(context: Context) -> Iterator[Outcome]:
    version = context.settings.kubernetes.version
    rows = context.aws.pages("eks", "describe_cluster_versions", "clusterVersions")
    support = {row["clusterVersion"]: row["versionStatus"] for row in rows}
    if version not in support or support[version] == "UNSUPPORTED":
        known = ", ".join(sorted(name for name, status in support.items() if status != "UNSUPPORTED"))
        yield failed(f"EKS does not offer Kubernetes {version}", f"Use kubernetes.version among: {known}.")
    elif support[version] == "EXTENDED_SUPPORT":
        yield warning(
            f"Kubernetes {version} is in extended support, which costs six times as much per cluster hour",
            "Use a newer kubernetes.version that stacks/addon_versions.py lists.",
        )
    else:
        yield passed(f"EKS offers Kubernetes {version}")


def addon_versions(context: Context) -> Iterator[Outcome]:
    """EKS retires old builds, and a deploy would find out only after half an hour."""
    settings = context.settings
    pinned = ADDON_VERSIONS[settings.kubernetes.version]
    wanted = {name: getattr(pinned, field) for field, name in ADDON_NAMES.items()}
    if settings.observability.addon_version is not None:
        wanted[OBSERVABILITY_ADDON] = settings.observability.addon_version
    wrong = 0
    for name, version in wanted.items():
        offered = _offered(context, name)
        if version not in offered:
            wrong += 1
            where = "cdk.json" if name == OBSERVABILITY_ADDON else "stacks/addon_versions.py"
            newest = offered[0] if offered else "none"
            yield failed(f"EKS does not offer {name} {version}", f"Newest is {newest}: put it into {where}.")
    if not wrong:
        yield passed(f"EKS offers all {len(wanted)} pinned add-on versions")


def _offered(context: Context, name: str) -> list[str]:
    addons = context.aws.pages(
        "eks",
        "describe_addon_versions",
        "addons",
        addonName=name,
        kubernetesVersion=context.settings.kubernetes.version,
    )
    return [version["addonVersion"] for addon in addons for version in addon["addonVersions"]]


def identity_center(context: Context) -> Iterator[Outcome]:
    """Grafana signs people in through an organization's instance; an account's own instance is refused."""
    authentication = context.settings.observability.grafana_authentication
    if authentication is not GrafanaAuthentication.IDENTITY_CENTER:
        yield passed(f"Identity Center is not needed: grafana_authentication is {authentication.value}")
        return
    instances = context.aws.pages("sso-admin", "list_instances", "Instances")
    if not instances:
        yield failed(
            "no Identity Center instance is visible from this account and region",
            'Enable it in the organization, or set observability.grafana_authentication to "saml" or "none".',
        )
    elif all(instance.get("OwnerAccountId") == context.aws.account for instance in instances):
        yield warning(
            "the Identity Center instance belongs to this account",
            "Unless this is the management account, Grafana refuses it: use the organization's instance.",
        )
    else:
        yield passed("the organization's Identity Center instance is visible")


def hub_token(context: Context) -> Iterator[Outcome]:
    """The staging job reads it before the first run; a missing one would show only then."""
    arn = context.settings.staging.hub_token_secret_arn
    if arn is None:
        yield passed("no Hugging Face token is used: the staged sources must be public")
        return
    try:
        secret = context.aws.client("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        yield failed(f"no secret {arn}", "Create it with the token as its text, or mend the setting.")
        return
    if "DeletedDate" in secret:
        yield failed(f"secret {arn} waits for its deletion", "Restore it: aws secretsmanager restore-secret.")
    else:
        yield passed(f"secret {secret['Name']} exists")


CHECKS = (
    Check(name="hub-token", ask=hub_token),
    Check(name="kubernetes-version", ask=kubernetes_version),
    Check(name="addon-versions", ask=addon_versions),
    Check(name="identity-center", ask=identity_center),
)
