"""Stack: the image registry and the training image in it."""

from typing import Any

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from stacks.image_build import BuildArguments, ImageBuild
from stacks.image_repository import ImageRepository
from stacks.removal import removal_policy
from stacks.settings import Settings


class RegistryStack(Stack):
    """ECR and the image that CodeBuild puts there. `image_uri` is for the Ray pods."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        repository = ImageRepository(
            self,
            "Images",
            name=f"{settings.name}/training",
            removal_policy=removal_policy(settings.removal),
        ).repository
        build = ImageBuild(
            self,
            "TrainingImage",
            repository=repository,
            arguments=BuildArguments(base_image=settings.image.base_image),
        )
        self.image_uri = build.image_uri
        CfnOutput(self, "ImageUri", value=build.image_uri, description="The training image")
        CfnOutput(self, "ImageDigest", value=build.digest, description="Its digest, for records of a run")
