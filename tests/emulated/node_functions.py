"""Stand-ins for CDK's own Node functions: they need the AWS SDK that Lambda's Node runtime brings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tests.emulated.account import Resource
from tests.emulated.failures import ResourceFailure

Event = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class NodeFunctions:
    """Does in Python what CDK's own handlers do in Node, against the emulated services."""

    s3: Any
    ecr: Any

    def call(self, provider: Resource, event: Event) -> dict[str, Any]:
        """The answer of the function behind `provider`; refuses types that have no stand-in."""
        stand_ins: dict[str, Callable[[Event], None]] = {
            "Custom::S3AutoDeleteObjects": self._empty_bucket,
            "Custom::ECRAutoDeleteImages": self._empty_repository,
            "Custom::VpcRestrictDefaultSG": lambda _: None,
        }
        resource_type = event["ResourceType"]
        if resource_type not in stand_ins:
            raise ResourceFailure(f"{provider.logical_id} has no stand-in for {resource_type}")
        stand_ins[resource_type](event)
        return {"PhysicalResourceId": event.get("PhysicalResourceId", event["LogicalResourceId"])}

    def _empty_bucket(self, event: Event) -> None:
        if event["RequestType"] != "Delete":
            return
        bucket = event["ResourceProperties"]["BucketName"]
        try:
            versions = self.s3.list_object_versions(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchBucket":
                return
            raise
        for version in versions.get("Versions", []) + versions.get("DeleteMarkers", []):
            self.s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])

    def _empty_repository(self, event: Event) -> None:
        if event["RequestType"] != "Delete":
            return
        repository = event["ResourceProperties"]["RepositoryName"]
        images = self.ecr.list_images(repositoryName=repository)["imageIds"]
        if images:
            self.ecr.batch_delete_image(repositoryName=repository, imageIds=images)
