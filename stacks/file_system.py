"""The shared file system: everything a run reads and writes outside its pods."""

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct


class FileSystem(Construct):
    """FSx for Lustre, PERSISTENT_2 on SSD, version 2.15, compressed, in the zone of the nodes.

    Its network interface joins the nodes' security group: that group's rules among its own members carry
    Lustre (tcp 988 and 1018-1023, both ways). Destroying the construct deletes every checkpoint that was
    not exported to S3, unless `removal_policy` retains the file system; then its network interface keeps
    the subnet and the VPC alive until somebody deletes it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        capacity_gib: int,
        throughput_mbps_per_tib: int,
        backup_retention_days: int,
        encryption_key: kms.IKey,
        removal_policy: RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        lustre = fsx.LustreFileSystem(
            self,
            "Lustre",
            vpc=vpc,
            vpc_subnet=subnet,
            # Immutable, because the construct would otherwise open 988-1023 to the group a second time.
            security_group=ec2.SecurityGroup.from_security_group_id(
                self, "Nodes", security_group.security_group_id, mutable=False
            ),
            storage_capacity_gib=capacity_gib,
            file_system_type_version=fsx.FileSystemTypeVersion.V_2_15,
            kms_key=encryption_key,
            removal_policy=removal_policy,
            lustre_configuration=fsx.LustreConfiguration(
                deployment_type=fsx.LustreDeploymentType.PERSISTENT_2,
                per_unit_storage_throughput=throughput_mbps_per_tib,
                data_compression_type=fsx.LustreDataCompressionType.LZ4,
                automatic_backup_retention=Duration.days(backup_retention_days),
                copy_tags_to_backups=True if backup_retention_days else None,
            ),
        )
        self.capacity_gib = capacity_gib
        self.file_system_id = lustre.file_system_id
        self.dns_name = lustre.dns_name
        self.mount_name = lustre.mount_name

    def link_to_bucket(self, *, bucket: s3.IBucket, prefix: str, directory: str) -> None:
        """Tie `directory` to s3://bucket/prefix: objects appear as files, new and changed files are exported.

        Deleting a file does not delete its object, so the bucket also guards against a slip on the cluster.
        """
        fsx.CfnDataRepositoryAssociation(
            self,
            "BucketLink",
            file_system_id=self.file_system_id,
            file_system_path=directory,
            data_repository_path=bucket.s3_url_for_object(prefix),
            batch_import_meta_data_on_create=True,
            s3=fsx.CfnDataRepositoryAssociation.S3Property(
                auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(
                    events=["NEW", "CHANGED"]
                ),
                auto_export_policy=fsx.CfnDataRepositoryAssociation.AutoExportPolicyProperty(
                    events=["NEW", "CHANGED"]
                ),
            ),
        ).node.add_dependency(bucket)

    @property
    def arn(self) -> str:
        return Stack.of(self).format_arn(
            service="fsx", resource="file-system", resource_name=self.file_system_id
        )
