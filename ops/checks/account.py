"""The account, the caller and the CDK's foothold in it."""

from collections.abc import Iterator

from botocore.exceptions import ClientError, NoCredentialsError

from ops.aws import error_code
from ops.checks.model import Check, Context, Outcome, failed, passed, warning
from stacks.pins import OPEN_COMMIT, OPEN_DIGEST

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = 6
"""The least that the synthesized templates accept; they carry the same rule."""
BOOTSTRAP_ROLES = ("deploy", "file-publishing", "lookup")
DEPLOY_ACTIONS = (
    "aps:CreateWorkspace",
    "ec2:CreateVpc",
    "ecr:CreateRepository",
    "eks:CreateAddon",
    "eks:CreateCluster",
    "fsx:CreateFileSystem",
    "iam:CreateRole",
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "kms:CreateKey",
    "lambda:CreateFunction",
    "sagemaker:CreateCluster",
)
"""What CloudFormation's role must be allowed, a representative action per service."""


def credentials(context: Context) -> Iterator[Outcome]:
    try:
        identity = context.aws.identity
    except (NoCredentialsError, ClientError) as error:
        yield failed(f"no usable credentials: {error}", "Sign in, for example with `aws sso login`.")
        return
    yield passed(f"account {identity['Account']} as {identity['Arn']}")


def region(context: Context) -> Iterator[Outcome]:
    name = context.settings.region
    answer = context.aws.client("ec2").describe_regions(AllRegions=True)
    status = {row["RegionName"]: row["OptInStatus"] for row in answer["Regions"]}.get(name, "not-opted-in")
    if status == "not-opted-in":
        yield failed(f"{name} is not enabled in this account", f"Enable {name} in the account's settings.")
    else:
        yield passed(f"{name} is enabled")


def bootstrap(context: Context) -> Iterator[Outcome]:
    command = f"Run `npx cdk bootstrap aws://{context.aws.account}/{context.settings.region}`."
    try:
        parameter = context.aws.client("ssm").get_parameter(Name=BOOTSTRAP_PARAMETER)
    except ClientError as error:
        if error_code(error) != "ParameterNotFound":
            raise
        yield failed("the CDK is not bootstrapped in this account and region", command)
        return
    version = int(parameter["Parameter"]["Value"])
    if version < BOOTSTRAP_VERSION:
        yield failed(f"bootstrap version {version} is older than {BOOTSTRAP_VERSION}", command)
    else:
        yield passed(f"bootstrap version {version}")


def caller_permissions(context: Context) -> Iterator[Outcome]:
    """The caller needs only the CDK's roles; CloudFormation acts as its own."""
    account, name = context.aws.account, context.settings.region
    roles = [
        f"arn:aws:iam::{account}:role/cdk-hnb659fds-{role}-role-{account}-{name}" for role in BOOTSTRAP_ROLES
    ]
    caller = principal_arn(context.aws.identity["Arn"])
    if caller is None:
        yield warning(
            "the root user is signed in", "Use a role: the root user cannot assume the CDK's roles."
        )
        return
    denied = _denied(context, principal=caller, actions=["sts:AssumeRole"], resources=roles)
    if denied:
        yield failed(
            f"{caller} may not assume the CDK's roles", f"Allow sts:AssumeRole on {roles[0]} and its like."
        )
    else:
        yield passed("the caller may assume the CDK's roles")


def deploy_permissions(context: Context) -> Iterator[Outcome]:
    account, name = context.aws.account, context.settings.region
    role = f"arn:aws:iam::{account}:role/cdk-hnb659fds-cfn-exec-role-{account}-{name}"
    denied = _denied(context, principal=role, actions=list(DEPLOY_ACTIONS), resources=["*"])
    if denied:
        yield failed(
            f"CloudFormation's role may not: {', '.join(denied)}",
            "Allow them, or bootstrap again with --cloudformation-execution-policies.",
        )
    else:
        yield passed("CloudFormation's role may create what the stacks need")


def _denied(context: Context, *, principal: str, actions: list[str], resources: list[str]) -> list[str]:
    results = context.aws.pages(
        "iam",
        "simulate_principal_policy",
        "EvaluationResults",
        PolicySourceArn=principal,
        ActionNames=actions,
        ResourceArns=resources,
    )
    return sorted({row["EvalActionName"] for row in results if row["EvalDecision"] != "allowed"})


def principal_arn(caller: str) -> str | None:
    """The IAM user or role behind a caller; None for the root user, which IAM cannot simulate."""
    _, partition, _, _, account, resource = caller.split(":", maxsplit=5)
    if resource.startswith("assumed-role/"):
        role = resource.split("/")[1]
        return f"arn:{partition}:iam::{account}:role/{role}"
    return None if resource == "root" else caller


def principals(context: Context) -> Iterator[Outcome]:
    """Access entries accept any ARN, so a typo would lock everyone out."""
    access = context.settings.access
    absent = [
        arn
        for arn in (*access.admin_principal_arns, *access.researcher_principal_arns)
        if not _exists(context, arn)
    ]
    if absent:
        yield failed(
            f"not in account {context.aws.account}: {', '.join(absent)}",
            "Put IAM roles or users of this account into access.* of cdk.json.",
        )
    else:
        yield passed("every principal of access.* exists")


def _exists(context: Context, arn: str) -> bool:
    account, resource = arn.split(":")[4:6]
    if account != context.aws.account:
        return False
    kind, name = resource.split("/")[0], resource.rsplit("/", 1)[-1]
    iam = context.aws.client("iam")
    try:
        iam.get_role(RoleName=name) if kind == "role" else iam.get_user(UserName=name)
    except ClientError as error:
        if error_code(error) != "NoSuchEntity":
            raise
        return False
    return True


def pins(context: Context) -> Iterator[Outcome]:
    settings = context.settings
    opened = [settings.image.base_image] if settings.image.base_image.endswith(OPEN_DIGEST) else []
    opened += [artifact.source for artifact in settings.staging.artifacts if OPEN_COMMIT in artifact.source]
    for name in opened:
        yield failed(f"{name} is not pinned yet", "Run `python -m ops pin` and commit cdk.json.")
    if not opened:
        yield passed("the base image names its digest, what is staged its commit")


CHECKS = (
    Check(name="credentials", ask=credentials, needs_credentials=False),
    Check(name="region", ask=region),
    Check(name="cdk-bootstrap", ask=bootstrap),
    Check(name="caller-permissions", ask=caller_permissions),
    Check(name="deploy-permissions", ask=deploy_permissions),
    Check(name="principals", ask=principals),
    Check(name="pins", ask=pins, needs_credentials=False),
)
