"""Custom resource: start the CodeBuild project that builds the training image, wait, fail with its log.

Properties: ProjectName, RepositoryName, ImageTag. Attributes: ImageDigest, BuildId (empty when the tag was
there already: tags are immutable and name their content, so there is nothing to build). A deletion leaves
the image to the repository, which is emptied or retained as a whole.
"""

from typing import Any

import boto3

LOG_LINES = 25
REASON_LIMIT = 3000
"""Characters; CloudFormation cuts a failure's reason at about 4 kB."""


class ImageBuildError(Exception):
    """The build ended without an image; the message holds the failed phase and the last log lines."""


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
    """Report whether the image is there; raises ImageBuildError when the build failed."""
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


def build_ended(build_id: str) -> bool:
    """Whether the build came to a good end; raises ImageBuildError when it came to another."""
    build = boto3.client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]
    if build["buildStatus"] in {"IN_PROGRESS", "SUCCEEDED"}:
        return bool(build["buildStatus"] == "SUCCEEDED")
    raise ImageBuildError(failure_reason(build))


def image_digest(*, repository: str, tag: str) -> str | None:
    """Digest of the tagged image, or None when the repository does not hold it."""
    ecr = boto3.client("ecr")
    try:
        details = ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])["imageDetails"]
    except ecr.exceptions.ImageNotFoundException:
        return None
    digest: str = details[0]["imageDigest"]
    return digest


def failure_reason(build: dict[str, Any]) -> str:
    """One text: status, failed phases with their messages, address of the log, its last lines."""
    phases = [
        f"{phase['phaseType']}: {context['message']}"
        for phase in build.get("phases", [])
        for context in phase.get("contexts", [])
        if context.get("message")
    ]
    logs = build.get("logs", {})
    lines = last_log_lines(group=logs.get("groupName"), stream=logs.get("streamName"))
    text = "\n".join(
        [
            f"image build {build['id']} ended as {build['buildStatus']}",
            *phases,
            f"log: {logs.get('groupName')} / {logs.get('streamName')}, last lines:",
            *lines,
        ]
    )
    return (
        text
        if len(text) <= REASON_LIMIT
        else f"{text[: REASON_LIMIT // 2]}\n...\n{text[-REASON_LIMIT // 2 :]}"
    )


def last_log_lines(*, group: str | None, stream: str | None) -> list[str]:
    """The newest lines of the build's log; a build that died before its log began has none."""
    if not group or not stream:
        return ["(the build wrote no log)"]
    logs = boto3.client("logs")
    try:
        events = logs.get_log_events(
            logGroupName=group, logStreamName=stream, limit=LOG_LINES, startFromHead=False
        )["events"]
    except logs.exceptions.ResourceNotFoundException:
        return ["(the build wrote no log)"]
    return [event["message"].rstrip() for event in events]
