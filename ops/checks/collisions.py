"""Names that are taken, and stacks that an earlier attempt left half-way."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.aws import error_code
from ops.checks.model import Check, Context, Outcome, failed, passed
from ops.deployment import STACK_PARTS, stack_names
from stacks.names import cluster_name, control_plane_log_group

DEAD_ENDS = {
    "CREATE_FAILED",
    "DELETE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_ROLLBACK_FAILED",
}


def stacks(context: Context) -> Iterator[Outcome]:
    """CloudFormation refuses to update these; each must be deleted or continued by hand first."""
    found = _stack_states(context)
    stuck = {name: state for name, state in found.items() if state in DEAD_ENDS or "IN_PROGRESS" in state}
    for name, state in sorted(stuck.items()):
        remedy = (
            "Wait for it." if "IN_PROGRESS" in state else "Run `python -m ops teardown`, then deploy again."
        )
        yield failed(f"stack {name} is {state}", remedy)
    if not stuck:
        yield passed(f"{len(found)} of {len(STACK_PARTS)} stacks exist, none is stuck")


def _stack_states(context: Context) -> dict[str, str]:
    wanted = set(stack_names(context.settings))
    rows = context.aws.pages("cloudformation", "describe_stacks", "Stacks")
    return {row["StackName"]: row["StackStatus"] for row in rows if row["StackName"] in wanted}


def names(context: Context) -> Iterator[Outcome]:
    """Fixed names outside our own stacks make CloudFormation fail late, or act on someone else's things."""
    settings, existing = context.settings, _stack_states(context)
    taken: list[str] = []
    if f"{settings.name}-cluster" not in existing:
        taken += _taken_by_cluster(context)
    if f"{settings.name}-hyperpod" not in existing:
        taken += _taken_by_hyperpod(context)
    for what in taken:
        yield failed(
            f"{what} exists but belongs to none of our stacks",
            "Choose another `name` in cdk.json, or run `python -m ops audit --delete` if it is a leftover.",
        )
    if not taken:
        yield passed(f"the names that a deployment called {settings.name} uses are free or ours")


def _taken_by_cluster(context: Context) -> Iterator[str]:
    name, group = cluster_name(context.settings), control_plane_log_group(context.settings)
    try:
        context.aws.client("eks").describe_cluster(name=name)
        yield f"EKS cluster {name}"
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
    groups = context.aws.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=group)
    yield from (f"log group {group}" for found in groups if found["logGroupName"] == group)


def _taken_by_hyperpod(context: Context) -> Iterator[str]:
    settings = context.settings
    clusters = context.aws.pages("sagemaker", "list_clusters", "ClusterSummaries", NameContains=settings.name)
    yield from (
        f"HyperPod cluster {settings.name}" for row in clusters if row["ClusterName"] == settings.name
    )
    bucket = f"sagemaker-{settings.name}-{context.aws.account}-{settings.region}"
    try:
        context.aws.client("s3").head_bucket(Bucket=bucket)
        yield f"bucket {bucket}"
    except ClientError as error:
        if error_code(error) != "404":
            raise


CHECKS = (
    Check(name="stacks", ask=stacks),
    Check(name="names", ask=names),
)
