"""Where custom resources that use no framework put their answer: the address in the event's ResponseURL."""

import json
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(kw_only=True)
class ResponseInbox:
    """An HTTP server that keeps what is PUT to it until it is asked for."""

    _answers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self._answers))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def url(self, request_id: str) -> str:
        """The address for the answer to one event."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{request_id}"

    def take(self, request_id: str) -> dict[str, Any] | None:
        """The answer, if there was one."""
        answer: dict[str, Any] | None = self._answers.pop(f"/{request_id}", None)
        return answer

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()


def _handler_class(answers: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            answers[self.path] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output clean."""

    return Handler
