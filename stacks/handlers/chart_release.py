"""Custom resource: install, upgrade or uninstall a Helm chart that lies in a git repository, by CodeBuild.

Properties: ProjectName, and the build's variables: Repository, Commit, ChartPath, Release, Namespace,
Values (JSON). The physical id is namespace and release: changing either is another release, so CloudFormation
deletes the old one afterwards. Any other change upgrades in place. A failed uninstall fails the deletion.

Without Release it is about the chart's CRDs alone: they are applied, and left when the resource goes, because
deleting a definition deletes every object of its kind.
"""

from typing import Any

import boto3

from .builds import build_ended

VARIABLES = {
    "REPOSITORY": "Repository",
    "COMMIT": "Commit",
    "CHART_PATH": "ChartPath",
    "RELEASE": "Release",
    "NAMESPACE": "Namespace",
    "VALUES": "Values",
}


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Start the build that does what CloudFormation asks."""
    properties = event["ResourceProperties"]
    is_delete, is_release = event["RequestType"] == "Delete", "Release" in properties
    if is_delete and not is_release:
        return {}
    action = ("uninstall" if is_delete else "install") if is_release else "apply_crds"
    variables = {"ACTION": action} | {
        name: properties[key] for name, key in VARIABLES.items() if key in properties
    }
    build = boto3.client("codebuild").start_build(
        projectName=properties["ProjectName"],
        environmentVariablesOverride=[
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
        ],
    )["build"]
    release = f"{properties['Namespace']}/{properties['Release']}" if is_release else properties["ChartPath"]
    return {"PhysicalResourceId": release, "Data": {"BuildId": build["id"]}}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Whether the build is done, if there is one; raises BuildError with the log's end when it failed."""
    build_id = (event.get("Data") or {}).get("BuildId")
    return {"IsComplete": build_id is None or build_ended(build_id)}
