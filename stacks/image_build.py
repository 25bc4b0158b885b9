"""The training image, built in the account: no Docker on the laptop."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import yaml
from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.polled_resource import PolledResource

CONTEXT = Path(__file__).parent.parent / "training"
IMAGE_FILES = CONTEXT / "image"
BUILDSPEC = IMAGE_FILES / "buildspec.yaml"
BUILD_TIMEOUT = Duration.hours(2)
TAG_LENGTH = 20


def context_excludes() -> list[str]:
    """What Docker leaves out of the build context; the uploaded source leaves out the same."""
    lines = (IMAGE_FILES / "Dockerfile.dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildArguments:
    """What a build depends on beside the files in `training/`."""

    base_image: str

    def tag(self, *, context_hash: str) -> str:
        """The image's tag: a hash of everything that goes into it. Same content, same tag, nothing built."""
        content = "\n".join((context_hash, self.base_image))
        return hashlib.sha256(content.encode()).hexdigest()[:TAG_LENGTH]


class ImageBuild(Construct):
    """A CodeBuild project that builds `training/image/Dockerfile` and pushes it, and the wait for it.

    A deployment ends only when the image is in the registry, and fails with the build's last log lines when
    it cannot be built. Destroying the construct removes the project; the image belongs to the repository.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ecr.IRepository,
        arguments: BuildArguments,
    ) -> None:
        super().__init__(scope, construct_id)
        source = s3_assets.Asset(
            self,
            "Source",
            path=str(CONTEXT),
            exclude=context_excludes(),
            ignore_mode=IgnoreMode.DOCKER,
        )
        self.tag = arguments.tag(context_hash=source.asset_hash)
        project = self._project(source=source, repository=repository, arguments=arguments)
        build = PolledResource(
            self,
            "Build",
            handler="image_build",
            properties={
                "ProjectName": project.project_name,
                "RepositoryName": repository.repository_name,
                "ImageTag": self.tag,
            },
            statements=self._handler_statements(project=project, repository=repository),
            # The project's own limit comes first, so that its log is the one that explains.
            total_timeout=BUILD_TIMEOUT.plus(Duration.minutes(30)),
            query_interval=Duration.seconds(30),
        )
        # The role's policy is a resource of its own: a build that starts before it cannot read its source.
        build.node.add_dependency(project)
        self.image_uri = repository.repository_uri_for_tag(self.tag)
        self.digest = build.resource.get_att_string("ImageDigest")

    def _project(
        self, *, source: s3_assets.Asset, repository: ecr.IRepository, arguments: BuildArguments
    ) -> codebuild.Project:
        variables = {
            "REPOSITORY_NAME": repository.repository_name,
            "REPOSITORY_URI": repository.repository_uri,
            "IMAGE_TAG": self.tag,
            "BASE_IMAGE": arguments.base_image,
        }
        self.log_group = logs.LogGroup(
            self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        project = codebuild.Project(
            self,
            "Project",
            description="Builds the training image and pushes it to the registry",
            source=codebuild.Source.s3(bucket=source.bucket, path=source.s3_object_key),
            build_spec=codebuild.BuildSpec.from_object_to_yaml(yaml.safe_load(BUILDSPEC.read_text())),
            environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxBuildImage.STANDARD_7_0,
                # 256 GB of disk: the base image unpacks to tens of GB, and the locked wheels add as much.
                compute_type=codebuild.ComputeType.X_LARGE,
                privileged=True,
            ),
            environment_variables={
                name: codebuild.BuildEnvironmentVariable(value=value) for name, value in variables.items()
            },
            cache=codebuild.Cache.local(codebuild.LocalCacheMode.DOCKER_LAYER),
            timeout=BUILD_TIMEOUT,
            queued_timeout=Duration.minutes(30),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self.log_group)
            ),
        )
        source.grant_read(project)
        repository.grant_pull_push(project)
        repository.grant(project, "ecr:DescribeImages")  # to find the image that serves as cache
        return project

    def _handler_statements(
        self, *, project: codebuild.IProject, repository: ecr.IRepository
    ) -> list[iam.PolicyStatement]:
        return [
            iam.PolicyStatement(
                actions=["codebuild:StartBuild", "codebuild:BatchGetBuilds"], resources=[project.project_arn]
            ),
            iam.PolicyStatement(actions=["ecr:DescribeImages"], resources=[repository.repository_arn]),
            iam.PolicyStatement(
                actions=["logs:GetLogEvents"], resources=[f"{self.log_group.log_group_arn}:log-stream:*"]
            ),
        ]
