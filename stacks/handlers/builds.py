"""For custom resources that run their work in CodeBuild: has the build ended, and why did it fail."""

from typing import Any

import boto3

LOG_LINES = 25
REASON_LIMIT = 3000
"""Characters; CloudFormation cuts a failure's reason at about 4 kB."""


class BuildError(Exception):
    """The build did not succeed; the message holds the failed phase and the last log lines."""


def build_ended(build_id: str) -> bool:
    """Whether the build came to a good end; raises BuildError when it came to another."""
    build = boto3.client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]
    if build["buildStatus"] in {"IN_PROGRESS", "SUCCEEDED"}:
        return bool(build["buildStatus"] == "SUCCEEDED")
    raise BuildError(failure_reason(build))


def failure_reason(build: dict[str, Any]) -> str:
    """One text: status, failed phases with their messages, address of the log, its last lines."""
    phases = [
        f"{phase['phaseType']}: {context['message']}"
        for phase in build.get("phases", [])
        for context in phase.get("contexts", [])
        if context.get("message")
    ]
    logs = build.get("logs", {})
    group, stream = logs.get("groupName"), logs.get("streamName")
    return shortened(
        "\n".join(
            [
                f"build {build['id']} ended as {build['buildStatus']}",
                *phases,
                f"log: {group} / {stream}, last lines:",
                *last_log_lines(group=group, stream=stream),
            ]
        )
    )


def shortened(text: str) -> str:
    """The text with its middle cut out when it is longer than CloudFormation shows."""
    if len(text) <= REASON_LIMIT:
        return text
    return f"{text[: REASON_LIMIT // 2]}\n...\n{text[-REASON_LIMIT // 2 :]}"


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
