"""The registry that the nodes pull the training image from."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ecr as ecr
from constructs import Construct

KEPT_IMAGES = 10
"""A training image is tens of GB, so storage is the cost; ten leave room to go back."""


class ImageRepository(Construct):
    """An ECR repository whose tags never move, whose images are scanned on push, and which stays small.

    Destroying it deletes its images, unless `removal_policy` retains it; they can be built again from their
    commit.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, removal_policy: RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        self.repository = ecr.Repository(
            self,
            "Repository",
            repository_name=name,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.AES_256,
            lifecycle_rules=[
                ecr.LifecycleRule(
                    rule_priority=1,
                    description="Layers of failed pushes",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=Duration.days(1),
                ),
                ecr.LifecycleRule(
                    rule_priority=2,
                    description=f"All but the newest {KEPT_IMAGES} images",
                    tag_status=ecr.TagStatus.ANY,
                    max_image_count=KEPT_IMAGES,
                ),
            ],
            removal_policy=removal_policy,
            empty_on_delete=removal_policy == RemovalPolicy.DESTROY,
        )
