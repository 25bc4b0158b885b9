"""The custom resource behind a Helm release from git, against a stubbed CodeBuild client."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stacks.handlers import chart_release
from stacks.handlers.builds import BuildError

PROPERTIES = {
    "ServiceToken": "arn:aws:lambda:us-east-2:111122223333:function:provider",
    "ProjectName": "charts",
    "Repository": "https://git.example/charts.git",
    "Commit": "0" * 40,
    "ChartPath": "charts/one",
    "Release": "one",
    "Namespace": "kube-system",
    "Values": '{"enabled": true}',
}


@pytest.fixture
def codebuild(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client(
        "codebuild", region_name="us-east-2", aws_access_key_id="none", aws_secret_access_key="none"
    )
    monkeypatch.setattr(boto3, "client", lambda _service: client)
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def build_starts(codebuild: Stubber, action: str) -> None:
    variables = {
        "ACTION": action,
        "REPOSITORY": PROPERTIES["Repository"],
        "COMMIT": PROPERTIES["Commit"],
        "CHART_PATH": "charts/one",
        "RELEASE": "one",
        "NAMESPACE": "kube-system",
        "VALUES": '{"enabled": true}',
    }
    overrides = [{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()]
    codebuild.add_response(
        "start_build",
        {"build": {"id": "charts:1"}},
        {"projectName": "charts", "environmentVariablesOverride": overrides},
    )


def event(request_type: str, **more: Any) -> dict[str, Any]:
    return {"RequestType": request_type, "ResourceProperties": PROPERTIES, **more}


@pytest.mark.parametrize(
    ("request_type", "action"), [("Create", "install"), ("Update", "install"), ("Delete", "uninstall")]
)
def test_each_request_starts_the_build_that_does_it(
    codebuild: Stubber, request_type: str, action: str
) -> None:
    build_starts(codebuild, action)
    answer = chart_release.on_event(event(request_type), None)
    assert answer == {"PhysicalResourceId": "kube-system/one", "Data": {"BuildId": "charts:1"}}


CRDS = {key: PROPERTIES[key] for key in ("ServiceToken", "ProjectName", "Repository", "Commit", "ChartPath")}


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_without_a_release_only_the_crds_are_applied(codebuild: Stubber, request_type: str) -> None:
    variables = {
        "ACTION": "apply_crds",
        "REPOSITORY": CRDS["Repository"],
        "COMMIT": CRDS["Commit"],
        "CHART_PATH": "charts/one",
    }
    overrides = [{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()]
    codebuild.add_response(
        "start_build",
        {"build": {"id": "charts:1"}},
        {"projectName": "charts", "environmentVariablesOverride": overrides},
    )
    answer = chart_release.on_event({"RequestType": request_type, "ResourceProperties": CRDS}, None)
    assert answer == {"PhysicalResourceId": "charts/one", "Data": {"BuildId": "charts:1"}}


@pytest.mark.usefixtures("codebuild")
def test_crds_stay_when_their_resource_goes() -> None:
    """No build is started: the stub would refuse it."""
    gone = {"RequestType": "Delete", "ResourceProperties": CRDS, "PhysicalResourceId": "charts/one"}
    answer = chart_release.on_event(gone, None)
    assert chart_release.is_complete({**gone, **answer}, None) == {"IsComplete": True}


@pytest.mark.parametrize(("status", "complete"), [("IN_PROGRESS", False), ("SUCCEEDED", True)])
def test_completion_follows_the_build(codebuild: Stubber, status: str, complete: bool) -> None:
    codebuild.add_response(
        "batch_get_builds", {"builds": [{"id": "charts:1", "buildStatus": status}]}, {"ids": ["charts:1"]}
    )
    answer = chart_release.is_complete(event("Create", Data={"BuildId": "charts:1"}), None)
    assert answer == {"IsComplete": complete}


def test_a_failed_uninstall_fails_the_deletion(codebuild: Stubber) -> None:
    build = {
        "id": "charts:1",
        "buildStatus": "FAILED",
        "phases": [{"phaseType": "BUILD", "contexts": [{"message": "exit status 1"}]}],
    }
    codebuild.add_response("batch_get_builds", {"builds": [build]}, {"ids": ["charts:1"]})
    with pytest.raises(BuildError, match="exit status 1"):
        chart_release.is_complete(event("Delete", Data={"BuildId": "charts:1"}), None)
