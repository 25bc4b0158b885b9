"""Custom resource: start the CodeBuild project that builds the training image, wait, fail with its log.

Properties: ProjectName, RepositoryName, ImageTag. Attributes: ImageDigest, BuildId (empty when the tag was
there already: tags are immutable and name their content, so there is nothing to build). A deletion leaves
the image to the repository, which is emptied or retained as a whole.
"""

from typing import Any

import boto3

from .builds import build_ended


class ImageBuildError(Exception):
    """The build succeeded without an image."""


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Start the build unless the image exists. The physical id is the tag: a new tag is a new image."""
    properties = event["ResourceProperties"]
    tag = properties["ImageTag"]
    if event["RequestType"] == "Delete":
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    if image_digest(repository=properties["RepositoryName"], tag=tag):
        return {"PhysicalResourceId": tag, "Data": {"BuildId": ""}}
    build = boto3.client("codebuild").start_build(projectName=properties["ProjectName"])["build"]
    return {"PhysicalResourceId": tag, "Data": {"BuildId": build["id"]}}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Report whether the image is there; raises BuildError when the build failed."""
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    build_id = event["Data"]["BuildId"]
    if build_id and not build_ended(build_id):
        return {"IsComplete": False}
    properties = event["ResourceProperties"]
    digest = image_digest(repository=properties["RepositoryName"], tag=properties["ImageTag"])
    if not digest:
        raise ImageBuildError(
            f"build {build_id} succeeded but {properties['RepositoryName']}:{properties['ImageTag']} is not "
            "in the registry; look at the push in the build's log"
        )
    return {"IsComplete": True, "Data": {"ImageDigest": digest, "BuildId": build_id}}


def image_digest(*, repository: str, tag: str) -> str | None:
    """Digest of the tagged image, or None when the repository does not hold it."""
    ecr = boto3.client("ecr")
    try:
        details = ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])["imageDetails"]
    except ecr.exceptions.ImageNotFoundException:
        return None
    digest: str = details[0]["imageDigest"]
    return digest
