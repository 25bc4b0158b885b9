"""The bucket for what outlives a cluster: exported checkpoints, adapters, reports, staged models."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct


class ArtifactBucket(Construct):
    """A private, versioned, encrypted bucket that refuses plain HTTP.

    Destroying it deletes its objects too, unless `removal_policy` retains it. Old versions of an object are
    kept for `noncurrent_days`, broken uploads for a week: a checkpoint's parts are large.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        removal_policy: RemovalPolicy,
        noncurrent_days: int = 30,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            # S3's own key: FSx's link to the bucket and every pod would need a customer-managed one too.
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                    noncurrent_version_expiration=Duration.days(noncurrent_days),
                )
            ],
            removal_policy=removal_policy,
            auto_delete_objects=removal_policy == RemovalPolicy.DESTROY,
        )
