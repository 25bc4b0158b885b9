"""A Hugging Face hub, an S3 bucket and Secrets Manager on this machine, as far as staging asks, with faults.

Serves the hub's HTTP interface as huggingface_hub 1.33 calls it (revision, tree, resolve with a redirect for
large files), S3's GetObject, and Secrets Manager's GetSecretValue.
"""

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

REPOSITORY = "VisGym/visgym_model"
BLOCK_BYTES = 64 * 1024


@dataclass
class LocalHub:
    """State of the services; tests change it between requests."""

    files: dict[str, bytes]
    """Content of the repository and the bucket by path."""
    large: frozenset[str] = frozenset()
    """Paths in large-file storage: listed with a SHA-256, served from another address after a redirect."""
    commit: str = "c" * 40
    token: str | None = None
    """Demanded of every request when set."""
    secret: str = ""
    cut_after: dict[str, int] = field(default_factory=dict)
    """Bytes after which the connection is closed, once per path."""
    corrupt: Counter[str] = field(default_factory=Counter)
    """How many more answers of a path carry a wrong byte."""
    fail_with: list[int] = field(default_factory=list)
    """Statuses of the next answers."""
    ignores_ranges: bool = False
    bytes_per_second: float | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range header of every request for content."""
    served_bytes: int = 0
    authorized: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Authorization header of every request."""
    address: str = ""

    def listed(self, folder: str) -> list[dict[str, Any]]:
        return [self._entry(path) for path in sorted(self.files) if path.startswith(f"{folder}/")]

    def _entry(self, path: str) -> dict[str, Any]:
        content = self.files[path]
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob}
        if path in self.large:
            sha256 = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
        return entry

    @contextmanager
    def running(self) -> Iterator["LocalHub"]:
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *arguments: Any) -> None:
        """Silent: a client that is killed leaves broken connections, which is what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        authorization = self.headers.get("Authorization")
        self.hub.authorized.append((path, authorization))
        if self.hub.fail_with:
            self._json({"error": "as told"}, status=self.hub.fail_with.pop(0))
        elif self._is_refused(path, authorization):
            self._json({"error": "restricted"}, status=401)
        else:
            self._route(path)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._json({"SecretString": self.hub.secret})

    def _is_refused(self, path: str, authorization: str | None) -> bool:
        """A large file's address is signed, so it needs no token."""
        wanted = f"Bearer {self.hub.token}"
        return self.hub.token is not None and not path.startswith("/cdn/") and authorization != wanted

    def _route(self, path: str) -> None:
        api = f"/api/models/{REPOSITORY}"
        tree = f"{api}/tree/{self.hub.commit}/"
        resolve = f"/{REPOSITORY}/resolve/{self.hub.commit}/"
        if path.startswith(f"{api}/revision/"):
            self._json({"id": REPOSITORY, "sha": self.hub.commit})
        elif path.startswith(tree):
            self._json(self.hub.listed(path.removeprefix(tree)))
        elif path.removeprefix(resolve) in self.hub.large:
            elsewhere = self.hub.address.replace("127.0.0.1", "localhost")
            self._answer(302, Location=f"{elsewhere}/cdn/{path.removeprefix(resolve)}", Content_Length="0")
        else:
            self._content(path.removeprefix(resolve).removeprefix("/cdn/").removeprefix("/bucket/"))

    def _content(self, name: str) -> None:
        if name not in self.hub.files:
            self._json({"error": "no such file"}, status=404)
            return
        wanted = self.headers.get("Range")
        self.hub.requests.append((name, wanted))
        ranged = wanted is not None and not self.hub.ignores_ranges
        start = int(str(wanted).removeprefix("bytes=").rstrip("-")) if ranged else 0
        content = self.hub.files[name][start:]
        if self.hub.corrupt[name]:
            self.hub.corrupt[name] -= 1
            content = bytes([content[0] ^ 1]) + content[1:]
        self._answer(206 if ranged else 200, Content_Length=str(len(content)))
        cut = self.hub.cut_after.pop(name, None)
        self._send(content[:cut])
        self.close_connection = cut is not None

    def _send(self, content: bytes) -> None:
        for start in range(0, len(content), BLOCK_BYTES):
            block = content[start : start + BLOCK_BYTES]
            self.wfile.write(block)
            self.hub.served_bytes += len(block)
            if self.hub.bytes_per_second:
                time.sleep(len(block) / self.hub.bytes_per_second)

    def _json(self, body: Any, *, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self._answer(status, Content_Type="application/json", Content_Length=str(len(text)))
        self.wfile.write(text)

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Silent: the requests are kept in `hub.requests`."""
