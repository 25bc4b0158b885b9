"""The script that every node runs when it is created or replaced, and the bucket it comes from."""

from pathlib import Path

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

SOURCE = Path(__file__).parent / "lifecycle"
ON_CREATE = "on_create.sh"
PREFIX = "lifecycle"


class LifecycleScript(Construct):
    """Bucket and upload. HyperPod's managed node policy reads only buckets whose name begins with sagemaker-.

    Nodes fetch the script at every replacement, so the bucket must live as long as the cluster. It goes with
    the stack whatever the removal setting says: a deploy uploads the script again, and a kept bucket would be
    in the way of its own name.
    """

    def __init__(self, scope: Construct, construct_id: str, *, deployment: str) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=f"sagemaker-{deployment}-{Aws.ACCOUNT_ID}-{Aws.REGION}",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            removal_policy=RemovalPolicy.DESTROY,
            auto_delete_objects=True,
        )
        self.upload = s3_deployment.BucketDeployment(
            self,
            "Upload",
            sources=[s3_deployment.Source.asset(str(SOURCE))],
            destination_bucket=self.bucket,
            destination_key_prefix=PREFIX,
            # The group that CDK makes by itself is named after the function, and races with its first call.
            log_group=logs.LogGroup(self, "UploadLog"),
        )
        # Whatever is uploaded can be emptied again: a rollback between the two would keep the bucket.
        self.upload.node.add_dependency(self.bucket)
        self.source_uri = self.bucket.s3_url_for_object(PREFIX)
