"""A small HTTP server on a free port of the loopback interface."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Request:
    """What came in."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Response:
    """What goes out."""

    body: bytes = b""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain"


class LoopbackServer:
    """Answers POST and PUT with what `answer` gives, until `close`."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(answer))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """Stop answering."""
        self._http.shutdown()
        self._http.server_close()


def _handler_class(answer: Callable[[Request], Response]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            response = answer(Request(path=self.path, headers=dict(self.headers), body=body))
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        do_PUT = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    return Handler
