"""A client of Grafana's HTTP API that says what was refused, and asks again when that may help."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

AGAIN = {429, 500, 502, 503, 504}
ATTEMPTS = 5
LONGEST_WAIT_SECONDS = 20.0
TIMEOUT_SECONDS = 30.0


class GrafanaError(Exception):
    """Grafana refused a request, or did not answer; the message holds request, status and Grafana's words."""

    def __init__(self, request: str, status: int | None, detail: str) -> None:
        super().__init__(f"Grafana: {request}: {status or 'no answer'}: {detail[:500]}")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Grafana:
    """One workspace, with a token that may administer it."""

    url: str
    token: str
    timeout_seconds: float = TIMEOUT_SECONDS
    sleep: Callable[[float], None] = time.sleep

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The parsed answer. Raises GrafanaError; overload and outages are waited out first."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, path, body)
            except GrafanaError as error:
                if attempt == ATTEMPTS or error.status not in {None, *AGAIN}:
                    raise
                self.sleep(min(LONGEST_WAIT_SECONDS, 2.0**attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def exists(self, path: str) -> bool:
        try:
            self.call("GET", path)
        except GrafanaError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def delete(self, path: str) -> None:
        """What is not there needs no deleting."""
        try:
            self.call("DELETE", path)
        except GrafanaError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def _once(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(  # noqa: S310 (the address is the workspace's own)
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                # Without it, rules and contact points could not be changed in the browser afterwards.
                "X-Disable-Provenance": "true",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_seconds) as response:  # noqa: S310
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            raise GrafanaError(
                f"{method} {path}", error.code, error.read().decode(errors="replace")
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise GrafanaError(f"{method} {path}", None, str(error)) from error
