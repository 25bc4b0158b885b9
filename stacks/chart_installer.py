"""Helm charts that no repository publishes, installed from a pinned commit of their source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.polled_resource import PolledProvider

SCRIPT = Path(__file__).parent / "chart_release"
BUILD_TIMEOUT = Duration.minutes(30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """Where a chart lies."""

    repository: str
    commit: str
    """Full hash: a tag can move."""
    path: str
    """Folder of the chart in the repository."""


class ChartInstaller(Construct):
    """A CodeBuild project inside the VPC that runs `chart_release/release.sh`, and what starts it.

    CodeBuild, because the work needs git, a way to the private API server, and more than 15 minutes at worst.
    Helm and kubectl are those of CDK's own kubectl layer, so the account runs one version of each. The
    project's role administers the cluster: a chart may hold any object.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        security_group: ec2.ISecurityGroup,
        kubectl_layer: lambda_.ILayerVersion,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        script = s3_assets.Asset(self, "Script", path=str(SCRIPT))
        tools_bucket, tools_key = _content_of(kubectl_layer)
        log_group = logs.LogGroup(self, "Log")
        self.project = codebuild.Project(
            self,
            "Project",
            description="Installs, upgrades and uninstalls Helm charts from pinned commits",
            source=codebuild.Source.s3(bucket=script.bucket, path=script.s3_object_key),
            build_spec=codebuild.BuildSpec.from_object_to_yaml(
                {"version": "0.2", "phases": {"build": {"commands": ["bash release.sh"]}}}
            ),
            environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxBuildImage.AMAZON_LINUX_2023_5,
                compute_type=codebuild.ComputeType.SMALL,
            ),
            environment_variables={
                "CLUSTER_NAME": codebuild.BuildEnvironmentVariable(value=cluster.cluster_name),
                "TOOLS": codebuild.BuildEnvironmentVariable(value=f"s3://{tools_bucket}/{tools_key}"),
            },
            encryption_key=key,
            vpc=vpc,
            subnet_selection=subnets,
            security_groups=[security_group],
            timeout=BUILD_TIMEOUT,
            queued_timeout=Duration.minutes(30),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=log_group)
            ),
        )
        script.grant_read(self.project)
        s3.Bucket.from_bucket_name(self, "Tools", tools_bucket).grant_read(self.project, tools_key)
        self.project.add_to_role_policy(
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster.cluster_arn])
        )
        role = self.project.role
        assert role is not None
        access = eks.AccessEntry(
            self,
            "Access",
            cluster=cluster,
            principal=role.role_arn,
            access_policies=[
                eks.AccessPolicy.from_access_policy_name(
                    "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
                )
            ],
        )
        provider = PolledProvider(
            self,
            "Provider",
            handler="chart_release",
            statements=[
                iam.PolicyStatement(
                    actions=["codebuild:StartBuild", "codebuild:BatchGetBuilds"],
                    resources=[self.project.project_arn],
                ),
                iam.PolicyStatement(
                    actions=["logs:GetLogEvents"], resources=[f"{log_group.log_group_arn}:log-stream:*"]
                ),
            ],
            # The project's own limits come first, so that its log is the one that explains.
            total_timeout=BUILD_TIMEOUT.plus(Duration.minutes(40)),
            query_interval=Duration.seconds(15),
        )
        self.service_token = provider.service_token
        # A build that starts, or an uninstall that runs, without these has no rights on cluster or bucket.
        self.prerequisites = (provider, self.project, access)


class GitChart(Construct):
    """One Helm release. A change of commit or values upgrades it, a change of name or namespace replaces it.

    Destroying it uninstalls the release; a failed uninstall fails the destroy with the log's last lines.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        installer: ChartInstaller,
        source: ChartSource,
        release: str,
        namespace: str,
        values: Mapping[str, Any],
    ) -> None:
        super().__init__(scope, construct_id)
        self.resource = CustomResource(
            self,
            "Release",
            resource_type="Custom::HelmRelease",
            service_token=installer.service_token,
            properties={
                "ProjectName": installer.project.project_name,
                "Repository": source.repository,
                "Commit": source.commit,
                "ChartPath": source.path,
                "Release": release,
                "Namespace": namespace,
                "Values": json.dumps(values, sort_keys=True),
            },
        )
        self.resource.node.add_dependency(*installer.prerequisites)


class GitCrds(Construct):
    """The CRDs of a chart, brought to a commit's version: Helm installs them once and never again.

    Destroying it leaves them: with a definition, every object of its kind would go.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, installer: ChartInstaller, source: ChartSource
    ) -> None:
        super().__init__(scope, construct_id)
        self.resource = CustomResource(
            self,
            "Crds",
            resource_type="Custom::HelmCrds",
            service_token=installer.service_token,
            properties={
                "ProjectName": installer.project.project_name,
                "Repository": source.repository,
                "Commit": source.commit,
                "ChartPath": source.path,
            },
        )
        self.resource.node.add_dependency(*installer.prerequisites)


def _content_of(layer: lambda_.ILayerVersion) -> tuple[str, str]:
    """Bucket and key of a layer's zip."""
    resource = layer.node.default_child
    assert isinstance(resource, lambda_.CfnLayerVersion)
    content = resource.content
    assert isinstance(content, lambda_.CfnLayerVersion.ContentProperty)
    return content.s3_bucket, content.s3_key
