"""Looking versions up at a registry and a hub of our own, which speak as Docker Hub and Hugging Face do."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops import pin, registry
from ops.__main__ import app
from ops.output import OperationError
from ops.pin import pin_file
from stacks.faults import SettingsError
from stacks.pins import OPEN_COMMIT, OPEN_DIGEST
from stacks.settings import CDK_JSON, environments_of, load_settings

DIGEST = f"sha256:{'5c' * 32}"
COMMIT = "9f" * 20
TOKEN = "anonymous"


class Handler(BaseHTTPRequestHandler):
    """An OCI registry that sends to a token service first, and a hub's revision API."""

    asked: list[str]
    digest = DIGEST
    status = 200

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            host = self.headers["Host"]
            challenge = f'Bearer realm="http://{host}/token",service="registry",scope="repository:base:pull"'
            return self.answer(401, {"WWW-Authenticate": challenge})
        wanted = "application/vnd.oci.image.index.v1+json"
        assert wanted in self.headers["Accept"], "without it, a registry answers with one platform's digest"
        return self.answer(self.status, {"Docker-Content-Digest": self.digest})

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/token?"):
            assert "scope=repository%3Abase%3Apull" in self.path
            return self.answer(200, {}, {"token": TOKEN})
        return self.answer(self.status, {}, {"sha": COMMIT})

    def answer(self, status: int, headers: dict[str, str], body: object = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    handler = type("Service", (Handler,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        handler.address = f"127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield handler
        server.shutdown()


@pytest.fixture
def cdk_json(tmp_path: Path, service: Any) -> Path:
    """The repository's own, with its registry on this machine."""
    path = Path(shutil.copy(CDK_JSON, tmp_path))
    change(path, image={"base_image": f"{service.address}/base@sha256:{OPEN_DIGEST}"})
    return path


def change(path: Path, **sections: object) -> None:
    document = json.loads(path.read_text())
    for environment in document["context"]["environments"].values():
        environment.update(sections)
    path.write_text(json.dumps(document, indent=2) + "\n")


def test_it_writes_what_is_open_and_nothing_else(cdk_json: Path, service: Any) -> None:
    before = environments_of(cdk_json)
    pins = pin_file(cdk_json)
    for name, environment in environments_of(cdk_json).items():
        settings = load_settings(name, cdk_json)
        assert settings.image.base_image == f"{service.address}/base@{DIGEST}"
        assert [artifact.source for artifact in settings.staging.artifacts] == [
            f"hf://VisGym/visgym_model@{COMMIT}/mixed_qwen3vl"
        ]
        before[name].pop("staging", None)
        assert environment | {"image": before[name]["image"]} == before[name] | {
            "staging": environment["staging"]
        }
    assert len(pins) == 2 * len(before)
    assert service.asked.count("/v2/base/manifests/latest") == 2, "asked once, refused once"
    assert service.asked.count("/api/models/VisGym/visgym_model/revision/main") == 1


def test_what_is_pinned_stays_until_it_is_to_be_renewed(cdk_json: Path, service: Any) -> None:
    pin_file(cdk_json)
    service.digest = f"sha256:{'77' * 32}"
    text = cdk_json.read_text()
    assert pin_file(cdk_json) == []
    assert cdk_json.read_text() == text
    assert {found.after[-64:] for found in pin_file(cdk_json, refresh=True)} == {"77" * 32}


def test_a_tag_and_a_data_set_are_asked_for_by_name(cdk_json: Path, service: Any) -> None:
    change(
        cdk_json,
        image={"base_image": f"{service.address}/base:v1@sha256:{OPEN_DIGEST}"},
        staging={
            "artifacts": [
                {"source": f"hf://datasets/owner/mazes@{OPEN_COMMIT}", "folder": "a"},
                {"source": "s3://models-of-ours/sft", "folder": "b"},
            ]
        },
    )
    pin_file(cdk_json)
    assert "/v2/base/manifests/v1" in service.asked
    assert "/api/datasets/owner/mazes/revision/main" in service.asked
    sources = [artifact.source for artifact in load_settings(path=cdk_json).staging.artifacts]
    assert sources == [f"hf://datasets/owner/mazes@{COMMIT}", "s3://models-of-ours/sft"]


@pytest.mark.parametrize(
    ("attribute", "value", "says"),
    [("status", 404, "answered 404"), ("digest", "sha256:short", "tells no sha256 digest")],
)
def test_a_failed_lookup_leaves_the_file_as_it_was(
    cdk_json: Path, service: Any, attribute: str, value: object, says: str
) -> None:
    setattr(service, attribute, value)
    text = cdk_json.read_text()
    with pytest.raises(OperationError, match=says):
        pin_file(cdk_json)
    assert cdk_json.read_text() == text


def test_no_registry_at_all_is_one_line(monkeypatch: pytest.MonkeyPatch, cdk_json: Path) -> None:
    monkeypatch.setattr(pin, "CDK_JSON", cdk_json)
    change(cdk_json, image={"base_image": f"127.0.0.1:9/base@sha256:{OPEN_DIGEST}"})
    result = CliRunner().invoke(app, ["pin"])
    assert result.exit_code == 1
    assert "127.0.0.1:9/v2/base/manifests/latest cannot be reached" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_name_without_a_registry_is_refused() -> None:
    with pytest.raises(OperationError, match="names no registry"):
        registry.digest_of("base")


def test_settings_that_cannot_be_deployed_are_not_pinned(cdk_json: Path) -> None:
    change(cdk_json, region="nowhere")
    with pytest.raises(SettingsError, match="region"):
        pin_file(cdk_json)


def test_the_command_tells_what_it_wrote(monkeypatch: pytest.MonkeyPatch, cdk_json: Path) -> None:
    monkeypatch.setattr(pin, "CDK_JSON", cdk_json)
    assert DIGEST in CliRunner().invoke(app, ["pin"]).stdout
    again = CliRunner().invoke(app, ["pin", "--json"])
    assert json.loads(again.stdout) == []
