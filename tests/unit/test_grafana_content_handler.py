"""The custom resource that fills Grafana, against a Grafana on this machine and stubbed AWS clients."""

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from stacks.handlers import grafana_api, grafana_content
from stacks.handlers.grafana_api import ATTEMPTS, Grafana, GrafanaError
from tests.unit.local_grafana import TOKEN, LocalGrafana

WORKSPACE = "g-0123456789"
ADMIN = {"Role": "ADMIN", "Type": "SSO_GROUP", "Id": "11111111-2222-3333-4444-555555555555"}
VIEWER = {"Role": "VIEWER", "Type": "SSO_USER", "Id": "66666666-7777-8888-9999-000000000000"}


def dashboard(uid: str, title: str = "Title") -> dict[str, Any]:
    return {"uid": uid, "title": title, "panels": []}


def rule_group(title: str, *uids: str) -> dict[str, Any]:
    return {"title": title, "interval": 60, "rules": [{"uid": uid, "title": uid} for uid in uids]}


def content(**changes: Any) -> dict[str, Any]:
    return {
        "folder": {"uid": "rl", "title": "RL training"},
        "data_sources": [{"uid": "prometheus", "name": "Prometheus", "type": "prometheus"}],
        "dashboards": [dashboard("training"), dashboard("cluster")],
        "contact_points": [{"uid": "team", "name": "Team", "type": "sns", "settings": {}}],
        "rule_groups": [rule_group("training", "no-step", "nan")],
        "receiver": "Team",
    } | changes


@pytest.fixture
def grafana(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalGrafana]:
    monkeypatch.setattr(grafana_api, "LONGEST_WAIT_SECONDS", 0.0)
    with LocalGrafana().running() as grafana:
        yield grafana


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """A stub per service. Leaving the fixture fails the test when an expected call was not made."""
    options = {"region_name": "us-east-2", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
    stubs = {service: Stubber(boto3.client(service, **options)) for service in ("grafana", "s3")}
    for stub in stubs.values():
        stub.activate()
    monkeypatch.setattr(boto3, "client", lambda service: stubs[service].client)
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


type Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(grafana: LocalGrafana, aws: dict[str, Stubber]) -> Run:
    """Sends the handler an event with the given content; AWS plays along."""

    def run(request_type: str, document: dict[str, Any], **more: Any) -> dict[str, Any]:
        roles = more.pop("roles", [])
        expect_content(aws["s3"], document)
        if request_type == "Delete":
            aws["grafana"].add_response("describe_workspace", {"workspace": workspace()})
        for action, changed in more.pop("role_changes", []):
            expect_roles(aws["grafana"], action, changed)
        expect_session(aws["grafana"])
        properties = {
            "WorkspaceId": WORKSPACE,
            "Endpoint": grafana.url,
            "Bucket": "b",
            "Key": "k",
            "Roles": roles,
            "Values": {"REGION": "us-east-2"},
        }
        event = {"RequestType": request_type, "ResourceProperties": properties, **more}
        return grafana_content.on_event(event, None)

    return run


def expect_content(s3: Stubber, document: dict[str, Any]) -> None:
    text = json.dumps(document).encode()
    body = {"Body": StreamingBody(io.BytesIO(text), len(text))}
    s3.add_response("get_object", body, {"Bucket": "b", "Key": "k"})


def workspace() -> dict[str, Any]:
    return {
        "created": 0,
        "modified": 0,
        "id": WORKSPACE,
        "endpoint": "x",
        "grafanaVersion": "10.4",
        "status": "ACTIVE",
        "dataSources": ["PROMETHEUS"],
        "authentication": {"providers": ["AWS_SSO"]},
    }


def expect_session(stub: Stubber, *, leftovers: tuple[str, ...] = ()) -> None:
    """Whatever happens in between, the account that was made is deleted."""
    name, where = grafana_content.ACCOUNT_NAME, {"workspaceId": WORKSPACE}
    accounts = [
        {"id": each, "name": name, "isDisabled": "false", "grafanaRole": "ADMIN"} for each in leftovers
    ]
    stub.add_response("list_workspace_service_accounts", {**where, "serviceAccounts": accounts}, where)
    for each in leftovers:
        account = where | {"serviceAccountId": each}
        stub.add_response("delete_workspace_service_account", account, account)
    made = {"id": "7", "name": name, "grafanaRole": "ADMIN"}
    stub.add_response(
        "create_workspace_service_account", where | made, where | {"name": name, "grafanaRole": "ADMIN"}
    )
    token = {"id": "9", "name": name, "key": TOKEN}
    stub.add_response(
        "create_workspace_service_account_token",
        where | {"serviceAccountId": "7", "serviceAccountToken": token},
        where | {"serviceAccountId": "7", "name": name, "secondsToLive": grafana_content.TOKEN_SECONDS},
    )
    account = where | {"serviceAccountId": "7"}
    stub.add_response("delete_workspace_service_account", account, account)


def expect_roles(
    stub: Stubber, action: str, roles: list[dict[str, str]], errors: tuple[dict[str, Any], ...] = ()
) -> None:
    instructions = [
        {"action": action, "role": role["Role"], "users": [{"id": role["Id"], "type": role["Type"]}]}
        for role in roles
    ]
    expected = {"workspaceId": WORKSPACE, "updateInstructionBatch": instructions}
    stub.add_response("update_permissions", {"errors": list(errors)}, expected)


def test_creation_puts_everything_in_place(run: Run, grafana: LocalGrafana) -> None:
    answer = run("Create", content())
    assert answer == {
        "PhysicalResourceId": f"{WORKSPACE}/rl",
        "Data": {"Dashboards": "2", "RuleGroups": "1"},
    }
    assert grafana.data_sources.keys() == {"prometheus"}
    assert grafana.folder_of == {"training": "rl", "cluster": "rl"}
    assert grafana.receiver == "Team"
    assert [rule["uid"] for rule in grafana.rule_groups["rl", "training"]["rules"]] == ["no-step", "nan"]


def test_placeholders_are_filled_with_what_the_deployment_knows(run: Run, grafana: LocalGrafana) -> None:
    run("Create", content(dashboards=[dashboard("training", title="In @@REGION@@, run $run")]))
    assert grafana.dashboards["training"]["title"] == "In us-east-2, run $run"


def test_the_same_again_changes_nothing(run: Run, grafana: LocalGrafana) -> None:
    run("Create", content())
    before = state(grafana)
    run("Update", content())
    assert state(grafana) == before


def state(grafana: LocalGrafana) -> dict[str, Any]:
    held = ("data_sources", "dashboards", "folder_of", "contact_points", "rule_groups", "receiver")
    return {name: json.loads(json.dumps(str(getattr(grafana, name)))) for name in held}


def test_update_replaces_what_changed_and_removes_what_is_gone(run: Run, grafana: LocalGrafana) -> None:
    run("Create", content(rule_groups=[rule_group("training", "no-step"), rule_group("cost", "spend")]))
    run("Update", content(dashboards=[dashboard("training", title="Newer")]))
    assert grafana.dashboards.keys() == {"training"}
    assert grafana.dashboards["training"]["title"] == "Newer"
    assert grafana.rule_groups.keys() == {("rl", "training")}


def test_dashboards_that_people_keep_in_other_folders_are_left_alone(run: Run, grafana: LocalGrafana) -> None:
    run("Create", content())
    grafana.folders["theirs"] = {"uid": "theirs"}
    grafana.dashboards["theirs"] = dashboard("theirs")
    grafana.folder_of["theirs"] = "theirs"
    grafana.rule_groups["theirs", "theirs"] = rule_group("theirs", "theirs")
    run("Update", content(dashboards=[]))
    run("Delete", content(), PhysicalResourceId="x")
    assert grafana.dashboards.keys() == {"theirs"}
    assert grafana.rule_groups.keys() == {("theirs", "theirs")}


def test_deletion_leaves_nothing(run: Run, grafana: LocalGrafana) -> None:
    run("Create", content())
    run("Delete", content(), PhysicalResourceId=f"{WORKSPACE}/rl")
    assert state(grafana) == state(LocalGrafana())
    assert grafana.folders == {}


def test_deletion_of_what_somebody_deleted_before_is_no_error(run: Run, grafana: LocalGrafana) -> None:
    run("Delete", content(), PhysicalResourceId=f"{WORKSPACE}/rl")
    assert grafana.folders == {}


def test_deletion_after_the_workspace_is_gone_calls_no_grafana(
    grafana: LocalGrafana, aws: dict[str, Stubber]
) -> None:
    aws["grafana"].add_client_error("describe_workspace", "ResourceNotFoundException")
    properties = {"WorkspaceId": WORKSPACE, "Endpoint": grafana.url, "Roles": [ADMIN]}
    event = {"RequestType": "Delete", "PhysicalResourceId": "x", "ResourceProperties": properties}
    assert grafana_content.on_event(event, None) == {"PhysicalResourceId": "x"}
    assert grafana.requests == []


STEPS = (
    r"GET /api/datasources/uid/prometheus",
    r"POST /api/datasources",
    r"POST /api/folders",
    r"POST /api/dashboards/db",
    r"GET /api/v1/provisioning/contact-points",
    r"POST /api/v1/provisioning/contact-points",
    r"PUT /api/v1/provisioning/policies",
    r"PUT /api/v1/provisioning/folder/rl/rule-groups/training",
    r"GET /api/search.*",
    r"GET /api/v1/provisioning/alert-rules",
)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("step", STEPS)
def test_overload_and_outage_are_waited_out(run: Run, grafana: LocalGrafana, step: str, status: int) -> None:
    grafana.fail = [(step, status)] * 2
    run("Create", content())
    assert grafana.fail == []
    assert grafana.dashboards.keys() == {"training", "cluster"}
    assert grafana.rule_groups.keys() == {("rl", "training")}


@pytest.mark.parametrize("step", [step for step in STEPS if not step.startswith("GET")])
def test_lost_answer_of_a_request_that_worked_does_no_harm(
    run: Run, grafana: LocalGrafana, step: str
) -> None:
    """The repetition meets what the first attempt made: 409 or 412, and is turned into a replacement."""
    grafana.fail_after = [(step, 502)]
    run("Create", content())
    assert grafana.fail_after == []
    assert grafana.dashboards.keys() == {"training", "cluster"}
    assert grafana.contact_points.keys() == {"team"}


def test_outage_that_lasts_fails_with_request_and_words_and_leaves_no_account(
    run: Run, grafana: LocalGrafana
) -> None:
    grafana.fail = [(r"POST /api/folders", 500)] * ATTEMPTS
    with pytest.raises(GrafanaError, match=r"POST /api/folders: 500: .*as told"):
        run("Create", content())


def test_refusal_is_not_repeated(run: Run, grafana: LocalGrafana) -> None:
    with pytest.raises(GrafanaError, match=r"400: .*receiver does not exist"):
        run("Create", content(receiver="Nobody"))
    policies = [request for request in grafana.requests if request.startswith("PUT /api/v1/provisioning/pol")]
    assert len(policies) == 1


def test_slow_answer_is_given_up_and_asked_for_again(grafana: LocalGrafana) -> None:
    grafana.folders["rl"] = {"uid": "rl"}
    grafana.slow_seconds = [1.0, 0.0]
    client = Grafana(url=grafana.url, token=TOKEN, timeout_seconds=0.3)
    assert client.exists("/api/folders/rl")
    assert grafana.slow_seconds == []


def test_waits_grow_and_end() -> None:
    slept: list[float] = []
    nobody = Grafana(url="http://127.0.0.1:9", token=TOKEN, sleep=slept.append)  # the discard port
    with pytest.raises(GrafanaError, match="no answer"):
        nobody.call("GET", "/api/folders/rl")
    assert slept == [2.0, 4.0, 8.0, 16.0]


def test_account_left_by_a_run_that_was_ended_is_removed(
    grafana: LocalGrafana, aws: dict[str, Stubber]
) -> None:
    expect_session(aws["grafana"], leftovers=("3", "4"))
    with grafana_content.session(WORKSPACE, grafana.url) as client:
        assert not client.exists("/api/folders/rl")


def test_host_name_is_reached_by_https(aws: dict[str, Stubber]) -> None:
    expect_session(aws["grafana"])
    with grafana_content.session(WORKSPACE, "g-0.grafana-workspace.us-east-2.amazonaws.com") as client:
        assert client.url == "https://g-0.grafana-workspace.us-east-2.amazonaws.com"


def test_roles_are_given_taken_away_and_dropped_with_the_workspace(run: Run) -> None:
    run("Create", content(), roles=[ADMIN, VIEWER], role_changes=[("ADD", [ADMIN, VIEWER])])
    run(
        "Update",
        content(),
        roles=[ADMIN],
        role_changes=[("REVOKE", [VIEWER]), ("ADD", [ADMIN])],
        OldResourceProperties={"Roles": [ADMIN, VIEWER]},
    )
    run("Delete", content(), roles=[ADMIN], role_changes=[("REVOKE", [ADMIN])], PhysicalResourceId="x")


def test_refused_role_fails_although_the_call_succeeded(aws: dict[str, Stubber]) -> None:
    instruction = {"action": "ADD", "role": "ADMIN", "users": [{"id": ADMIN["Id"], "type": "SSO_GROUP"}]}
    error = {"code": 404, "message": "no such group", "causedBy": instruction}
    expect_roles(aws["grafana"], "ADD", [ADMIN], errors=(error,))
    with pytest.raises(grafana_content.RolesError, match=re.escape(f"{ADMIN['Id']}: no such group")):
        grafana_content.grant(WORKSPACE, [ADMIN])
