"""Stack: the file system shared by all nodes and the bucket beside it."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.artifact_bucket import ArtifactBucket
from stacks.file_system import FileSystem
from stacks.removal import removal_policy
from stacks.settings import Settings

BUCKET_LINK_DIRECTORY = "/runs"
"""The part of the file system that is exported: run folders hold the checkpoints."""


class StorageStack(Stack):
    """FSx for Lustre with its key, and the artifact bucket."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        storage = settings.storage
        removal = removal_policy(storage.removal)
        key = kms.Key(
            self,
            "Key",
            description=f"{settings.name}: shared file system",
            enable_key_rotation=True,
            removal_policy=removal,
        )
        self.artifacts = ArtifactBucket(self, "Artifacts", removal_policy=removal)
        self.file_system = FileSystem(
            self,
            "SharedFileSystem",
            vpc=vpc,
            subnet=subnet,
            security_group=security_group,
            capacity_gib=storage.capacity_gib,
            throughput_mbps_per_tib=storage.throughput_mbps_per_tib,
            backup_retention_days=storage.backup_retention_days,
            encryption_key=key,
            removal_policy=removal,
        )
        if storage.export_runs_to_s3:
            self.file_system.link_to_bucket(
                bucket=self.artifacts.bucket, prefix="runs", directory=BUCKET_LINK_DIRECTORY
            )
