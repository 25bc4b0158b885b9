"""Custom resource: install, upgrade or uninstall a Helm chart that lies in a git repository, by CodeBuild.

Properties: ProjectName, and the build's variables: Repository, Commit, ChartPath, Release, Namespace,
Values (JSON). The physical id is namespace and release: changing either is another release, so CloudFormation
deletes the old one afterwards. Any other change upgrades in place. A failed uninstall fails the deletion.
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
    action = "uninstall" if event["RequestType"] == "Delete" else "install"
    variables = {"ACTION": action} | {name: properties[key] for name, key in VARIABLES.items()}
    build = boto3.client("codebuild").start_build(
        projectName=properties["ProjectName"],
        environmentVariablesOverride=[
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
        ],
    )["build"]
    return {
        "PhysicalResourceId": f"{properties['Namespace']}/{properties['Release']}",
        "Data": {"BuildId": build["id"]},
    }


def is_complete(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Whether the build is done; raises BuildError with the log's end when it failed."""
    return {"IsComplete": build_ended(event["Data"]["BuildId"])}
