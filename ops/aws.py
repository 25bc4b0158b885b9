"""Clients of one account and region, made once each, patient with throttling and never waiting for long."""

from functools import cache, cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ACCESS_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "UnauthorizedOperation",
    "UnauthorizedAccess",
}
_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 5},
    connect_timeout=10,
    read_timeout=30,
    user_agent_extra="hyperpod-rl",
)


class Aws:
    """The account that the caller's credentials belong to."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._client = cache(self._make_client)

    def client(self, service: str) -> Any:
        return self._client(service)

    def _make_client(self, service: str) -> Any:
        return boto3.client(service, region_name=self.region, config=_CONFIG)

    @cached_property
    def identity(self) -> dict[str, str]:
        """Account and Arn of the caller."""
        answer = self.client("sts").get_caller_identity()
        return {"Account": answer["Account"], "Arn": answer["Arn"]}

    @property
    def account(self) -> str:
        return self.identity["Account"]

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """All items of a paginated operation."""
        paginator = self.client(service).get_paginator(operation)
        return [item for page in paginator.paginate(**arguments) for item in page[key]]


def error_code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def is_gone(error: ClientError) -> bool:
    """Whether the resource asked for does not exist (any more); the services spell it differently."""
    return "NotFound" in error_code(error) or error_code(error).startswith("NoSuch")


def is_denied(error: ClientError) -> bool:
    return error_code(error) in ACCESS_DENIED
