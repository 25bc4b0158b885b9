"""Custom resource: what is in a Managed Grafana workspace: data sources, dashboards, alerts, people's roles.

Properties: WorkspaceId, Endpoint (host name), Bucket and Key of the content in S3, Values for its
placeholders (`@@NAME@@`), Roles (a list of Role, Type, Id). The content is one JSON document (see `Content`)
with stable uids. Everything of it is put in place; what an earlier content put there and this one does not
have is removed; a deletion removes everything.

Grafana is entered by a service account that exists only while this runs, with a token of ten minutes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import boto3

from .grafana_api import Grafana, GrafanaError

ACCOUNT_NAME = "content-as-code"
TOKEN_SECONDS = 600
_CONFLICT = {409, 412}

type Json = dict[str, Any]


class RolesError(Exception):
    """Managed Grafana refused to give a role to a user or group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a workspace should hold. Every object carries the uid that Grafana will know it by."""

    folder: Json
    data_sources: tuple[Json, ...]
    dashboards: tuple[Json, ...]
    contact_points: tuple[Json, ...]
    rule_groups: tuple[Json, ...]
    receiver: str | None
    """The contact point that alerts go to by default."""

    @classmethod
    def parse(cls, text: str) -> Self:
        document = json.loads(text)
        lists = ("data_sources", "dashboards", "contact_points", "rule_groups")
        return cls(
            folder=document["folder"],
            receiver=document["receiver"],
            **{name: tuple(document[name]) for name in lists},
        )


def on_event(event: Json, _context: object) -> Json:
    """Bring the workspace to the content, or take the content out of it."""
    properties = event["ResourceProperties"]
    workspace = properties["WorkspaceId"]
    if event["RequestType"] == "Delete":
        if workspace_exists(workspace):
            revoke(workspace, properties["Roles"])
            with session(workspace, properties["Endpoint"]) as grafana:
                remove(grafana, load(properties))
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    old = event.get("OldResourceProperties", {})
    revoke(workspace, [role for role in old.get("Roles", []) if role not in properties["Roles"]])
    grant(workspace, properties["Roles"])
    content = load(properties)
    with session(workspace, properties["Endpoint"]) as grafana:
        apply(grafana, content)
    # The uid of the folder, not the workspace: another folder is other content, and the old one is deleted.
    return {
        "PhysicalResourceId": f"{workspace}/{content.folder['uid']}",
        "Data": {"Dashboards": str(len(content.dashboards)), "RuleGroups": str(len(content.rule_groups))},
    }


def load(properties: Json) -> Content:
    body = boto3.client("s3").get_object(Bucket=properties["Bucket"], Key=properties["Key"])["Body"]
    text = body.read().decode()
    for name, value in properties["Values"].items():
        text = text.replace(f"@@{name}@@", value)
    return Content.parse(text)


# --- Grafana: what is in the workspace ----------------------------------------------------------------------
def apply(grafana: Grafana, content: Content) -> None:
    """Put everything in place. Running it again changes nothing."""
    folder = content.folder["uid"]
    for source in content.data_sources:
        upsert(grafana, "/api/datasources", f"/api/datasources/uid/{source['uid']}", source)
    upsert(grafana, "/api/folders", f"/api/folders/{folder}", content.folder | {"overwrite": True})
    for dashboard in content.dashboards:
        body = {"dashboard": dashboard | {"id": None}, "folderUid": folder, "overwrite": True}
        grafana.call("POST", "/api/dashboards/db", body)
    alert(grafana, content)
    remove_strays(grafana, content)


def alert(grafana: Grafana, content: Content) -> None:
    """Put rules in place, and where they report to."""
    points = "/api/v1/provisioning/contact-points"
    known = {point["uid"] for point in grafana.call("GET", points)}
    for point in content.contact_points:
        create_or_replace(grafana, points, f"{points}/{point['uid']}", point, exists=point["uid"] in known)
    if content.receiver:
        grafana.call("PUT", "/api/v1/provisioning/policies", {"receiver": content.receiver})
    folder = content.folder["uid"]
    for group in content.rule_groups:
        grafana.call("PUT", rule_group_path(folder, group["title"]), group | {"folderUid": folder})


def upsert(grafana: Grafana, collection: str, item: str, body: Json) -> None:
    create_or_replace(grafana, collection, item, body, exists=grafana.exists(item))


def create_or_replace(grafana: Grafana, collection: str, item: str, body: Json, *, exists: bool) -> None:
    """A creation that lost its answer, or a race, has happened all the same: then replace."""
    if not exists:
        try:
            grafana.call("POST", collection, body)
        except GrafanaError as error:
            if error.status not in _CONFLICT:
                raise
        else:
            return
    grafana.call("PUT", item, body)


def remove_strays(grafana: Grafana, content: Content) -> None:
    """The folder is ours: what it holds beyond the content comes from an earlier version of it."""
    folder = content.folder["uid"]
    kept = {dashboard["uid"] for dashboard in content.dashboards}
    for found in grafana.call("GET", f"/api/search?type=dash-db&folderUIDs={folder}"):
        if found["uid"] not in kept:
            grafana.delete(f"/api/dashboards/uid/{found['uid']}")
    groups = {group["title"] for group in content.rule_groups}
    rules = grafana.call("GET", "/api/v1/provisioning/alert-rules")
    for title in {rule["ruleGroup"] for rule in rules if rule["folderUID"] == folder} - groups:
        grafana.delete(rule_group_path(folder, title))


def remove(grafana: Grafana, content: Content) -> None:
    """Take the content out: what refers to something goes before it."""
    folder = content.folder["uid"]
    if content.receiver:
        grafana.delete("/api/v1/provisioning/policies")  # back to Grafana's own receiver
    for point in content.contact_points:
        grafana.delete(f"/api/v1/provisioning/contact-points/{point['uid']}")
    grafana.delete(f"/api/folders/{folder}?forceDeleteRules=true")
    for source in content.data_sources:
        grafana.delete(f"/api/datasources/uid/{source['uid']}")


def rule_group_path(folder: str, title: str) -> str:
    return f"/api/v1/provisioning/folder/{folder}/rule-groups/{title}"


# --- AWS: entering the workspace, and who may ---------------------------------------------------------------
@contextmanager
def session(workspace: str, endpoint: str) -> Iterator[Grafana]:
    """An administrator of the workspace for the life of the block; nothing of it stays."""
    client = boto3.client("grafana")
    remove_accounts(client, workspace)  # of a run that was ended half-way
    account = client.create_workspace_service_account(
        workspaceId=workspace, name=ACCOUNT_NAME, grafanaRole="ADMIN"
    )["id"]
    try:
        token = client.create_workspace_service_account_token(
            workspaceId=workspace,
            serviceAccountId=account,
            name=ACCOUNT_NAME,
            secondsToLive=TOKEN_SECONDS,
        )["serviceAccountToken"]["key"]
        yield Grafana(url=endpoint if "://" in endpoint else f"https://{endpoint}", token=token)
    finally:
        # Deleting the account deletes its tokens.
        client.delete_workspace_service_account(workspaceId=workspace, serviceAccountId=account)


def remove_accounts(client: Any, workspace: str) -> None:
    pages = client.get_paginator("list_workspace_service_accounts").paginate(workspaceId=workspace)
    for page in pages:
        for account in page["serviceAccounts"]:
            if account["name"] == ACCOUNT_NAME:
                client.delete_workspace_service_account(workspaceId=workspace, serviceAccountId=account["id"])


def workspace_exists(workspace: str) -> bool:
    client = boto3.client("grafana")
    try:
        client.describe_workspace(workspaceId=workspace)
    except client.exceptions.ResourceNotFoundException:
        return False
    return True


def grant(workspace: str, roles: list[Json]) -> None:
    change_roles(workspace, "ADD", roles)


def revoke(workspace: str, roles: list[Json]) -> None:
    change_roles(workspace, "REVOKE", roles)


def change_roles(workspace: str, action: str, roles: list[Json]) -> None:
    """Raises RolesError with every refusal: the call itself succeeds when single instructions fail."""
    if not roles:
        return
    instructions = [
        {"action": action, "role": role["Role"], "users": [{"id": role["Id"], "type": role["Type"]}]}
        for role in roles
    ]
    errors = boto3.client("grafana").update_permissions(
        workspaceId=workspace, updateInstructionBatch=instructions
    )["errors"]
    if errors:
        told = "; ".join(f"{error['causedBy']['users'][0]['id']}: {error['message']}" for error in errors)
        raise RolesError(f"Managed Grafana did not {action.lower()} roles: {told}")
