"""The shared file system and the artifact bucket."""

from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Environment
from aws_cdk.assertions import Match, Template

from stacks.network import NetworkStack
from stacks.settings import Removal, load_settings
from stacks.storage import StorageStack
from tests.infra.conftest import flagged_app, resources_of, the_resource

type Build = Callable[..., Template]


@pytest.fixture(scope="module")
def build() -> Build:
    """Synthesizes the storage stack of the walkthrough with changed storage settings."""

    def build(**changes: Any) -> Template:
        app, env = flagged_app(), Environment(region="us-east-2")
        settings = load_settings()
        network = NetworkStack(app, "network", settings=settings, env=env)
        stack = StorageStack(
            app,
            "storage",
            settings=settings.model_copy(update={"storage": settings.storage.model_copy(update=changes)}),
            vpc=network.vpc,
            subnet=network.node_subnet,
            security_group=network.security_group,
            env=env,
        )
        return Template.from_stack(stack)

    return build


def test_file_system_is_persistent_compressed_and_encrypted(build: Build) -> None:
    template = build()
    template.has_resource_properties(
        "AWS::FSx::FileSystem",
        {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 2400,
            "KmsKeyId": {"Ref": Match.string_like_regexp("^Key")},
            "LustreConfiguration": {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 250,
                "DataCompressionType": "LZ4",
                "AutomaticBackupRetentionDays": 0,
            },
        },
    )
    template.has_resource_properties("AWS::KMS::Key", {"EnableKeyRotation": True})


def test_file_system_lies_in_the_nodes_subnet_and_security_group(
    walkthrough: dict[str, Any],
) -> None:
    file_system = the_resource(walkthrough["storage"], "AWS::FSx::FileSystem")
    vpc = the_resource(walkthrough["hyperpod"], "AWS::SageMaker::Cluster")["VpcConfig"]
    assert file_system["SubnetIds"] == vpc["Subnets"]
    assert file_system["SecurityGroupIds"] == vpc["SecurityGroupIds"]


def test_lustre_ports_are_open_between_members_in_both_directions(walkthrough: dict[str, Any]) -> None:
    network = walkthrough["network"]
    opened = [
        (rule["Properties"]["FromPort"], rule["Properties"]["ToPort"])
        for rule in resources_of(network, "AWS::EC2::SecurityGroupIngress").values()
        if rule["Properties"]["IpProtocol"] == "tcp"
    ]
    assert {(988, 988), (1018, 1023)} <= set(opened)
    out = resources_of(network, "AWS::EC2::SecurityGroupEgress").values()
    assert [rule["Properties"]["IpProtocol"] for rule in out] == ["-1"]


def test_file_system_adds_no_rule_to_the_nodes_security_group(build: Build) -> None:
    build().resource_count_is("AWS::EC2::SecurityGroupIngress", 0)


@pytest.mark.parametrize(("removal", "policy"), [(Removal.DESTROY, "Delete"), (Removal.RETAIN, "Retain")])
def test_removal_setting_decides_what_destroy_keeps(build: Build, removal: Removal, policy: str) -> None:
    template = build(removal=removal)
    for resource_type in ("AWS::FSx::FileSystem", "AWS::KMS::Key", "AWS::S3::Bucket"):
        template.has_resource(resource_type, {"DeletionPolicy": policy, "UpdateReplacePolicy": policy})
    template.resource_count_is("Custom::S3AutoDeleteObjects", 1 if policy == "Delete" else 0)


def test_bucket_is_private_versioned_and_refuses_plain_http(build: Build) -> None:
    template = build()
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "VersioningConfiguration": {"Status": "Enabled"},
            "LifecycleConfiguration": {
                "Rules": [
                    Match.object_like(
                        {
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
                            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                            "Status": "Enabled",
                        }
                    )
                ]
            },
        },
    )
    template.has_resource_properties(
        "AWS::S3::BucketPolicy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {
                                "Effect": "Deny",
                                "Action": "s3:*",
                                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                            }
                        )
                    ]
                )
            }
        },
    )


def test_runs_are_linked_to_the_bucket_only_when_asked(build: Build) -> None:
    build().resource_count_is("AWS::FSx::DataRepositoryAssociation", 0)
    template = build(export_runs_to_s3=True)
    template.has_resource_properties(
        "AWS::FSx::DataRepositoryAssociation",
        {
            "FileSystemPath": "/runs",
            "DataRepositoryPath": {
                "Fn::Join": ["", ["s3://", {"Ref": Match.string_like_regexp("^Artifacts")}, "/runs"]]
            },
            "S3": {
                "AutoExportPolicy": {"Events": ["NEW", "CHANGED"]},
                "AutoImportPolicy": {"Events": ["NEW", "CHANGED"]},
            },
        },
    )


def test_bucket_exists_with_its_policy_before_the_link(build: Build) -> None:
    link = next(
        iter(build(export_runs_to_s3=True).find_resources("AWS::FSx::DataRepositoryAssociation").values())
    )
    assert any(name.startswith("ArtifactsBucketPolicy") for name in link["DependsOn"])


def test_backups_are_kept_as_long_as_asked_and_carry_the_tags(build: Build) -> None:
    build(backup_retention_days=7).has_resource_properties(
        "AWS::FSx::FileSystem",
        {"LustreConfiguration": {"AutomaticBackupRetentionDays": 7, "CopyTagsToBackups": True}},
    )
