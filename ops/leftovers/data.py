"""What holds data: file systems, backups, images, buckets, logs, metrics, keys."""

from collections.abc import Iterator

from ops.leftovers.model import Found, Kind, Scope, Tags, tags_of
from stacks.names import cluster_name, control_plane_log_group, hyperpod_log_group_prefix
from stacks.settings import Removal, Settings

STUDIO_TAG = "ManagedByAmazonSageMakerResource"


def _keeps_data(settings: Settings) -> bool:
    return settings.storage.removal is Removal.RETAIN


def _keeps_records(settings: Settings) -> bool:
    return settings.removal is Removal.RETAIN


def _file_systems(scope: Scope) -> Iterator[Found]:
    for row in scope.aws.pages("fsx", "describe_file_systems", "FileSystems"):
        if (evidence := scope.owns(tags_of(row.get("Tags", [])))) and row.get("Lifecycle") != "DELETING":
            yield row["FileSystemId"], f"{evidence}, {row['StorageCapacity']} GiB"


def _backups(scope: Scope) -> Iterator[Found]:
    """A backup outlives its file system and copies its tags."""
    for row in scope.aws.pages("fsx", "describe_backups", "Backups"):
        origin = row.get("FileSystem", {})
        tags = tags_of([*origin.get("Tags", []), *row.get("Tags", [])])
        if evidence := scope.owns(tags):
            yield row["BackupId"], evidence


def _studio_homes(scope: Scope) -> Iterator[Found]:
    """Studio leaves its domain's EFS; what proves it ours is a tag, or a mount target in our VPC."""
    for row in scope.aws.pages("efs", "describe_file_systems", "FileSystems"):
        tags = tags_of(row["Tags"])
        evidence = scope.owns(tags) or _mounted_in_our_vpc(scope, row["FileSystemId"], tags)
        if evidence:
            yield row["FileSystemId"], evidence


def _mounted_in_our_vpc(scope: Scope, file_system: str, tags: Tags) -> str | None:
    if STUDIO_TAG not in tags or not scope.vpc_ids:
        return None
    targets = scope.aws.client("efs").describe_mount_targets(FileSystemId=file_system)["MountTargets"]
    ours = [target["VpcId"] for target in targets if target["VpcId"] in scope.vpc_ids]
    return f"Studio's home, mounted in {ours[0]}" if ours else None


def _delete_studio_home(scope: Scope, identifier: str) -> None:
    efs = scope.aws.client("efs")
    for target in efs.describe_mount_targets(FileSystemId=identifier)["MountTargets"]:
        efs.delete_mount_target(MountTargetId=target["MountTargetId"])
    efs.delete_file_system(FileSystemId=identifier)


def _repositories(scope: Scope) -> Iterator[Found]:
    ecr = scope.aws.client("ecr")
    for row in scope.aws.pages("ecr", "describe_repositories", "repositories"):
        tags = tags_of(ecr.list_tags_for_resource(resourceArn=row["repositoryArn"])["tags"])
        if evidence := scope.owns(tags):
            yield row["repositoryName"], evidence


def _metrics_workspaces(scope: Scope) -> Iterator[Found]:
    for row in scope.aws.pages("amp", "list_workspaces", "workspaces"):
        if evidence := scope.owns(row.get("tags", {})):
            yield row["workspaceId"], evidence


def _grafana_workspaces(scope: Scope) -> Iterator[Found]:
    for row in scope.aws.pages("grafana", "list_workspaces", "workspaces"):
        if evidence := scope.owns(row.get("tags", {})):
            yield row["id"], evidence


def _log_groups(scope: Scope) -> Iterator[Found]:
    """Services make these under names that end in ours; each prefix ends where a longer name would go on."""
    cluster = cluster_name(scope.settings)
    exact = (control_plane_log_group(scope.settings), f"/aws/vendedlogs/prometheus/{cluster}")
    prefixes = (hyperpod_log_group_prefix(scope.settings), f"/aws/containerinsights/{cluster}/")
    for start in (*exact, *prefixes):
        for row in scope.aws.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=start):
            name = row["logGroupName"]
            if start in prefixes or name == start:
                yield name, f"named after {cluster}"


def _tagged(scope: Scope, resource_type: str) -> Iterator[Found]:
    """By the tagging API, for services whose own lists carry no tags."""
    rows = scope.aws.pages(
        "resourcegroupstaggingapi",
        "get_resources",
        "ResourceTagMappingList",
        ResourceTypeFilters=[resource_type],
    )
    for row in rows:
        if evidence := scope.owns(tags_of(row["Tags"])):
            yield row["ResourceARN"], evidence


def _buckets(scope: Scope) -> Iterator[Found]:
    yield from ((arn.split(":::")[1], evidence) for arn, evidence in _tagged(scope, "s3"))


def _delete_bucket(scope: Scope, name: str) -> None:
    s3 = scope.aws.client("s3")
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=name)
    for page in pages:
        rows = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        objects = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
        if objects:
            s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
    s3.delete_bucket(Bucket=name)


def _keys(scope: Scope) -> Iterator[Found]:
    """A key that waits for its deletion costs nothing and needs nobody."""
    kms = scope.aws.client("kms")
    for arn, evidence in _tagged(scope, "kms:key"):
        key = arn.rsplit("/", 1)[-1]
        if kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] != "PendingDeletion":
            yield key, evidence


KINDS = (
    Kind(
        name="file system",
        find=_file_systems,
        delete=lambda scope, name: scope.aws.client("fsx").delete_file_system(FileSystemId=name),
        is_kept=_keeps_data,
    ),
    Kind(
        name="file system backup",
        find=_backups,
        delete=lambda scope, name: scope.aws.client("fsx").delete_backup(BackupId=name),
        is_kept=_keeps_data,
    ),
    Kind(name="Studio home", find=_studio_homes, delete=_delete_studio_home),
    Kind(
        name="image repository",
        find=_repositories,
        delete=lambda scope, name: scope.aws.client("ecr").delete_repository(repositoryName=name, force=True),
        is_kept=_keeps_records,
    ),
    Kind(
        name="Prometheus workspace",
        find=_metrics_workspaces,
        delete=lambda scope, name: scope.aws.client("amp").delete_workspace(workspaceId=name),
        is_kept=_keeps_records,
    ),
    Kind(
        name="Grafana workspace",
        find=_grafana_workspaces,
        delete=lambda scope, name: scope.aws.client("grafana").delete_workspace(workspaceId=name),
        is_kept=_keeps_records,
    ),
    Kind(
        name="log group",
        find=_log_groups,
        delete=lambda scope, name: scope.aws.client("logs").delete_log_group(logGroupName=name),
        is_kept=_keeps_records,
    ),
    Kind(name="bucket", find=_buckets, delete=_delete_bucket, is_kept=_keeps_data),
    Kind(
        name="key",
        find=_keys,
        delete=lambda scope, key: scope.aws.client("kms").schedule_key_deletion(
            KeyId=key, PendingWindowInDays=7
        ),
        is_kept=_keeps_records,
    ),
)
