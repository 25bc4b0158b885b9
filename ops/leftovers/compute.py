"""Clusters, their nodes and disks."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.aws import error_code
from ops.deployment import stack_names
from ops.leftovers.model import Found, Kind, Scope, tags_of
from stacks.names import cluster_name

GONE = {"DELETE_COMPLETE"}


def stacks(scope: Scope) -> Iterator[Found]:
    """Stacks of ours by their exact names."""
    wanted = set(stack_names(scope.settings))
    for row in scope.aws.pages("cloudformation", "describe_stacks", "Stacks"):
        if row["StackName"] in wanted and row["StackStatus"] not in GONE:
            yield row["StackName"], row["StackStatus"]


def _hyperpod_clusters(scope: Scope) -> Iterator[Found]:
    """Its nodes are no EC2 instances that anyone sees; they cost until the cluster is gone."""
    name, sagemaker = cluster_name(scope.settings), scope.aws.client("sagemaker")
    for row in scope.aws.pages("sagemaker", "list_clusters", "ClusterSummaries", NameContains=name):
        tags = tags_of(sagemaker.list_tags(ResourceArn=row["ClusterArn"])["Tags"])
        if row["ClusterName"] == name and (evidence := scope.owns(tags)):
            nodes = scope.aws.pages(
                "sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=row["ClusterArn"]
            )
            yield row["ClusterArn"], f"{evidence}, {row['ClusterStatus']}, {len(nodes)} nodes"


def _eks_clusters(scope: Scope) -> Iterator[Found]:
    try:
        cluster = scope.aws.client("eks").describe_cluster(name=cluster_name(scope.settings))["cluster"]
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        return
    if evidence := scope.owns(cluster.get("tags", {})):
        yield cluster["name"], f"{evidence}, {cluster['status']}"


def _volumes(scope: Scope) -> Iterator[Found]:
    for row in scope.aws.pages("ec2", "describe_volumes", "Volumes"):
        if evidence := scope.owns(tags_of(row.get("Tags", []))):
            yield row["VolumeId"], f"{evidence}, {row['Size']} GiB, {row['State']}"


KINDS = (
    Kind(name="stack", find=stacks),
    Kind(
        name="HyperPod cluster",
        find=_hyperpod_clusters,
        delete=lambda scope, arn: scope.aws.client("sagemaker").delete_cluster(ClusterName=arn),
    ),
    Kind(
        name="EKS cluster",
        find=_eks_clusters,
        delete=lambda scope, name: scope.aws.client("eks").delete_cluster(name=name),
    ),
    Kind(
        name="EBS volume",
        find=_volumes,
        delete=lambda scope, name: scope.aws.client("ec2").delete_volume(VolumeId=name),
    ),
)
