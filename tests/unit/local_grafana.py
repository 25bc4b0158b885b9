"""A Grafana on this machine: the endpoints that the content handler calls, kept in memory, with faults.

Follows the HTTP API of Grafana 10.4: statuses for things that exist or are missing, uids as keys, references
that keep a thing from being deleted.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_short_lived"

type Json = dict[str, Any]
type Answer = tuple[int, Any]


@dataclass
class LocalGrafana:
    """What the workspace holds, and what goes wrong."""

    data_sources: dict[str, Json] = field(default_factory=dict)
    folders: dict[str, Json] = field(default_factory=dict)
    dashboards: dict[str, Json] = field(default_factory=dict)
    folder_of: dict[str, str] = field(default_factory=dict)
    contact_points: dict[str, Json] = field(default_factory=dict)
    rule_groups: dict[tuple[str, str], Json] = field(default_factory=dict)
    receiver: str = "grafana-default-email"
    fail: list[tuple[str, int]] = field(default_factory=list)
    """`METHOD path-pattern` and the status of its next answer; the request then has no effect."""
    fail_after: list[tuple[str, int]] = field(default_factory=list)
    """The same, but the request has its effect and only the answer is lost."""
    slow_seconds: list[float] = field(default_factory=list)
    """How long the next answers take."""
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, target: str, body: Any) -> Answer:
        self.requests.append(f"{method} {target}")
        if status := _taken(self.fail, method, target):
            return status, {"message": "as told"}
        answer = self._route(method, target, body)
        if status := _taken(self.fail_after, method, target):
            return status, {"message": "the answer is lost"}
        return answer

    def _route(self, method: str, target: str, body: Any) -> Answer:
        parts = urlsplit(target)
        for pattern, action in ROUTES:
            if match := re.fullmatch(pattern, f"{method} {parts.path}"):
                return action(self, body, parse_qs(parts.query), *match.groups())
        return 405, {"message": f"{method} {parts.path} is not implemented here"}

    @contextmanager
    def running(self) -> Iterator["LocalGrafana"]:
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"grafana": self}))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _taken(faults: list[tuple[str, int]], method: str, target: str) -> int | None:
    for fault in faults:
        if re.fullmatch(fault[0], f"{method} {target}"):
            faults.remove(fault)
            return fault[1]
    return None


# --- endpoints ----------------------------------------------------------------------------------------------
type Query = dict[str, list[str]]
type Action = Callable[..., Answer]
MISSING: Answer = (404, {"message": "not found"})


def _get(kind: str) -> Action:
    def action(grafana: LocalGrafana, body: Any, query: Query, uid: str) -> Answer:
        found = getattr(grafana, kind).get(uid)
        return (200, found) if found else MISSING

    return action


def _create(kind: str, *, created: int = 200, exists: int = 409) -> Action:
    def action(grafana: LocalGrafana, body: Json, query: Query) -> Answer:
        if body["uid"] in getattr(grafana, kind):
            return exists, {"message": "exists already"}
        getattr(grafana, kind)[body["uid"]] = body
        return created, body

    return action


def _replace(kind: str) -> Action:
    def action(grafana: LocalGrafana, body: Json, query: Query, uid: str) -> Answer:
        if uid not in getattr(grafana, kind):
            return MISSING
        getattr(grafana, kind)[uid] = body
        return 202, body

    return action


def _delete(kind: str) -> Action:
    def action(grafana: LocalGrafana, body: Any, query: Query, uid: str) -> Answer:
        return (200, {}) if getattr(grafana, kind).pop(uid, None) else MISSING

    return action


def _replace_folder(grafana: LocalGrafana, body: Json, query: Query, uid: str) -> Answer:
    if not body.get("overwrite"):
        return 412, {"message": "the folder has been changed by someone else"}
    return _replace("folders")(grafana, body, query, uid)


def _delete_folder(grafana: LocalGrafana, body: Any, query: Query, uid: str) -> Answer:
    if uid not in grafana.folders:
        return MISSING
    groups = [key for key in grafana.rule_groups if key[0] == uid]
    if groups and query.get("forceDeleteRules") != ["true"]:
        return 400, {"message": "folder contains alert rules"}
    for key in groups:
        del grafana.rule_groups[key]
    for dashboard in [each for each, folder in grafana.folder_of.items() if folder == uid]:
        del grafana.dashboards[dashboard], grafana.folder_of[dashboard]
    del grafana.folders[uid]
    return 200, {}


def _save_dashboard(grafana: LocalGrafana, body: Json, query: Query) -> Answer:
    dashboard, folder = body["dashboard"], body["folderUid"]
    if folder not in grafana.folders:
        return 400, {"message": "folder not found"}
    if dashboard["uid"] in grafana.dashboards and not body.get("overwrite"):
        return 412, {"message": "exists already"}
    grafana.dashboards[dashboard["uid"]] = dashboard
    grafana.folder_of[dashboard["uid"]] = folder
    return 200, {"uid": dashboard["uid"], "status": "success"}


def _search(grafana: LocalGrafana, body: Any, query: Query) -> Answer:
    wanted = query["folderUIDs"]
    return 200, [{"uid": uid} for uid, folder in grafana.folder_of.items() if folder in wanted]


def _delete_dashboard(grafana: LocalGrafana, body: Any, query: Query, uid: str) -> Answer:
    grafana.folder_of.pop(uid, None)
    return _delete("dashboards")(grafana, body, query, uid)


def _list_points(grafana: LocalGrafana, body: Any, query: Query) -> Answer:
    return 200, list(grafana.contact_points.values())


def _delete_point(grafana: LocalGrafana, body: Any, query: Query, uid: str) -> Answer:
    point = grafana.contact_points.get(uid)
    if point and point["name"] == grafana.receiver:
        return 409, {"message": "contact point is in use by the notification policy"}
    return _delete("contact_points")(grafana, body, query, uid)


def _set_policy(grafana: LocalGrafana, body: Json, query: Query) -> Answer:
    if body["receiver"] not in {point["name"] for point in grafana.contact_points.values()}:
        return 400, {"message": "receiver does not exist"}
    grafana.receiver = body["receiver"]
    return 202, {}


def _reset_policy(grafana: LocalGrafana, body: Any, query: Query) -> Answer:
    grafana.receiver = "grafana-default-email"
    return 202, {}


def _put_group(grafana: LocalGrafana, body: Json, query: Query, folder: str, title: str) -> Answer:
    if folder not in grafana.folders:
        return 400, {"message": "folder not found"}
    grafana.rule_groups[folder, title] = body
    return 200, body


def _delete_group(grafana: LocalGrafana, body: Any, query: Query, folder: str, title: str) -> Answer:
    return (204, None) if grafana.rule_groups.pop((folder, title), None) else MISSING


def _list_rules(grafana: LocalGrafana, body: Any, query: Query) -> Answer:
    return 200, [
        {"uid": rule["uid"], "folderUID": folder, "ruleGroup": title}
        for (folder, title), group in grafana.rule_groups.items()
        for rule in group["rules"]
    ]


PROVISIONING = "/api/v1/provisioning"
ROUTES: tuple[tuple[str, Action], ...] = (
    (r"GET /api/datasources/uid/([\w-]+)", _get("data_sources")),
    (r"POST /api/datasources", _create("data_sources")),
    (r"PUT /api/datasources/uid/([\w-]+)", _replace("data_sources")),
    (r"DELETE /api/datasources/uid/([\w-]+)", _delete("data_sources")),
    (r"GET /api/folders/([\w-]+)", _get("folders")),
    (r"POST /api/folders", _create("folders", exists=412)),
    (r"PUT /api/folders/([\w-]+)", _replace_folder),
    (r"DELETE /api/folders/([\w-]+)", _delete_folder),
    (r"POST /api/dashboards/db", _save_dashboard),
    (r"GET /api/search", _search),
    (r"DELETE /api/dashboards/uid/([\w-]+)", _delete_dashboard),
    (rf"GET {PROVISIONING}/contact-points", _list_points),
    (rf"POST {PROVISIONING}/contact-points", _create("contact_points", created=202)),
    (rf"PUT {PROVISIONING}/contact-points/([\w-]+)", _replace("contact_points")),
    (rf"DELETE {PROVISIONING}/contact-points/([\w-]+)", _delete_point),
    (rf"PUT {PROVISIONING}/policies", _set_policy),
    (rf"DELETE {PROVISIONING}/policies", _reset_policy),
    (rf"PUT {PROVISIONING}/folder/([\w-]+)/rule-groups/([\w-]+)", _put_group),
    (rf"DELETE {PROVISIONING}/folder/([\w-]+)/rule-groups/([\w-]+)", _delete_group),
    (rf"GET {PROVISIONING}/alert-rules", _list_rules),
)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *arguments: Any) -> None:
        """Silent: a client that stops waiting leaves a broken connection, which is what is tested."""


class _Handler(BaseHTTPRequestHandler):
    grafana: LocalGrafana

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, answer = 401, {"message": "invalid API key"}
        else:
            slow = self.grafana.slow_seconds.pop(0) if self.grafana.slow_seconds else 0.0
            time.sleep(slow)
            status, answer = self.grafana.answer(self.command, self.path, body)
        text = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def log_message(self, *arguments: Any) -> None:
        """Silent: the requests are kept in `grafana.requests`."""
