"""AWS's JSON protocol for the services that moto lacks and this project's functions call."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from tests.emulated.loopback import LoopbackServer, Request, Response

Operation = Callable[[Mapping[str, Any]], dict[str, Any]]


def serve(operations: Mapping[str, Operation]) -> LoopbackServer:
    """Serve operations by name; everything else is refused as a call without permission."""

    def answer(request: Request) -> Response:
        name = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        if name not in operations:
            return _json({"__type": "AccessDeniedException"}, HTTPStatus.BAD_REQUEST)
        return _json(operations[name](json.loads(request.body)), HTTPStatus.OK)

    return LoopbackServer(answer)


def _json(content: Mapping[str, Any], status: HTTPStatus) -> Response:
    return Response(
        body=json.dumps(content).encode(), status=status, content_type="application/x-amz-json-1.1"
    )
