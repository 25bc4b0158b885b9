"""Custom resource: on deletion, delete the log groups that a service made under a prefix.

Properties: Prefix. HyperPod names its log group after the cluster's generated id, so no template can own it.
The cluster depends on this resource: the groups go when nothing writes to them any more.
"""

from typing import Any

import boto3


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Delete on Delete; otherwise nothing. The physical id is the prefix."""
    prefix = event["ResourceProperties"]["Prefix"]
    if event["RequestType"] == "Delete":
        delete_log_groups(event["PhysicalResourceId"])
    return {"PhysicalResourceId": prefix}


def delete_log_groups(prefix: str) -> None:
    """Delete every log group whose name begins with the prefix."""
    logs = boto3.client("logs")
    pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
    for name in [group["logGroupName"] for page in pages for group in page["logGroups"]]:
        logs.delete_log_group(logGroupName=name)
        print(f"deleted log group {name}")
