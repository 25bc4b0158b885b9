"""Where custom resources that use no framework put their answer: the address in the event's ResponseURL."""

import json
from typing import Any

from tests.emulated.loopback import LoopbackServer, Request, Response


class ResponseInbox:
    """Keeps what is PUT to it until it is asked for."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}
        self._server = LoopbackServer(self._keep)

    def url(self, request_id: str) -> str:
        """The address for the answer to one event."""
        return f"{self._server.url}/{request_id}"

    def take(self, request_id: str) -> dict[str, Any] | None:
        """The answer, if there was one."""
        answer: dict[str, Any] | None = self._answers.pop(f"/{request_id}", None)
        return answer

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _keep(self, request: Request) -> Response:
        self._answers[request.path] = json.loads(request.body)
        return Response()
