"""Resources that exist in moto too, because the CDK CLI or a custom resource's code calls their service."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tests.emulated.account import Resource
from tests.emulated.failures import ResourceFailure
from tests.emulated.hyperpod import HyperPod
from tests.emulated.kubernetes import Kubernetes


@dataclass(frozen=True, kw_only=True)
class Backing:
    """Makes and deletes the moto side of resources; types that are not listed have none."""

    clients: Callable[[str], Any]
    """Service name -> boto3 client of the emulated account."""
    region: str
    kubernetes: Kubernetes
    hyperpod: HyperPod

    def create(self, resource: Resource) -> None:
        """Create the service's side."""
        self._call(
            {
                "AWS::ECR::Repository": self._create_repository,
                "AWS::EKS::AccessEntry": self.kubernetes.admit,
                "AWS::EKS::Cluster": self._create_eks_cluster,
                "AWS::Logs::LogGroup": self._create_log_group,
                "AWS::S3::Bucket": self._create_bucket,
                "AWS::SSM::Parameter": self._put_parameter,
                "AWS::SageMaker::Cluster": self._create_hyperpod_cluster,
            },
            resource,
        )

    def update(self, resource: Resource) -> None:
        """Change the service's side where somebody reads what changed."""
        self._call(
            {
                "AWS::SSM::Parameter": self._put_parameter,
                "AWS::SageMaker::Cluster": self.hyperpod.change,
            },
            resource,
        )

    def delete(self, resource: Resource) -> None:
        """Delete the service's side; a service that refuses fails the deletion."""
        self._call(
            {
                "AWS::ECR::Repository": self._delete_repository,
                "AWS::EKS::AccessEntry": self.kubernetes.expel,
                "AWS::EKS::Cluster": self.kubernetes.delete_cluster,
                "AWS::Logs::LogGroup": self._delete_log_group,
                "AWS::S3::Bucket": self._delete_bucket,
                "AWS::SSM::Parameter": self._delete_parameter,
                "AWS::SageMaker::Cluster": self.hyperpod.delete,
            },
            resource,
        )

    @staticmethod
    def _call(actions: Mapping[str, Callable[[Resource], None]], resource: Resource) -> None:
        action = actions.get(resource.resource_type)
        if action is None:
            return
        try:
            action(resource)
        except ClientError as error:
            raise ResourceFailure(str(error)) from error

    def _create_eks_cluster(self, resource: Resource) -> None:
        self.kubernetes.create_cluster(resource)
        logging = resource.properties.get("Logging", {}).get("ClusterLogging", {})
        if logging.get("EnabledTypes"):
            self.write_to_log_group(f"/aws/eks/{resource.identity.ref}/cluster")

    def _create_hyperpod_cluster(self, resource: Resource) -> None:
        for group in resource.properties["InstanceGroups"]:
            if "LifeCycleConfig" in group:
                self._require_lifecycle_script(group["LifeCycleConfig"])
        self.hyperpod.change(resource)
        cluster_id = resource.identity.ref.rpartition("/")[2]
        self.write_to_log_group(f"/aws/sagemaker/Clusters/{resource.properties['ClusterName']}/{cluster_id}")

    def _require_lifecycle_script(self, config: Mapping[str, Any]) -> None:
        bucket, _, prefix = config["SourceS3Uri"].removeprefix("s3://").partition("/")
        key = f"{prefix}/{config['OnCreate']}".lstrip("/")
        self.clients("s3").head_object(Bucket=bucket, Key=key)

    def write_to_log_group(self, name: str) -> None:
        """A service writes its logs, and makes the group when it is not there."""
        logs = self.clients("logs")
        if not logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]:
            logs.create_log_group(logGroupName=name)

    def _create_bucket(self, resource: Resource) -> None:
        s3, name = self.clients("s3"), resource.identity.ref
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region})
        if "VersioningConfiguration" in resource.properties:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})

    def _delete_bucket(self, resource: Resource) -> None:
        self.clients("s3").delete_bucket(Bucket=resource.identity.ref)

    def _create_repository(self, resource: Resource) -> None:
        self.clients("ecr").create_repository(
            repositoryName=resource.identity.ref,
            imageTagMutability=resource.properties.get("ImageTagMutability", "MUTABLE"),
        )

    def _delete_repository(self, resource: Resource) -> None:
        self.clients("ecr").delete_repository(
            repositoryName=resource.identity.ref, force=bool(resource.properties.get("EmptyOnDelete", False))
        )

    def _create_log_group(self, resource: Resource) -> None:
        self.clients("logs").create_log_group(logGroupName=resource.identity.ref)

    def _delete_log_group(self, resource: Resource) -> None:
        self.clients("logs").delete_log_group(logGroupName=resource.identity.ref)

    def _put_parameter(self, resource: Resource) -> None:
        self.clients("ssm").put_parameter(
            Name=resource.identity.ref,
            Value=resource.properties["Value"],
            Type=resource.properties["Type"],
            Overwrite=True,
        )

    def _delete_parameter(self, resource: Resource) -> None:
        self.clients("ssm").delete_parameter(Name=resource.identity.ref)
