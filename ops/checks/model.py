"""What a check is and what it finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from botocore.exceptions import BotoCoreError, ClientError

from ops.aws import Aws, is_denied
from stacks.settings import Settings


class Status(StrEnum):
    """How a check came out."""

    PASS = "pass"  # noqa: S105
    """Nothing stands in the way."""
    WARN = "warn"
    """A deploy works, but something will be missing or surprising."""
    FAIL = "fail"
    """A deploy fails or stalls until this is mended."""
    UNKNOWN = "unknown"
    """The check could not be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One statement about the account. Every one but a pass says what to do."""

    check: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What checks look at."""

    settings: Settings
    aws: Aws
    now: datetime


type Outcome = tuple[Status, str, str]
"""Status, detail and remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named question; `ask` answers it with one outcome or several."""

    name: str
    ask: Callable[[Context], Iterator[Outcome]]
    needs_credentials: bool = True

    def run(self, context: Context) -> list[Finding]:
        """What AWS refuses or does not answer becomes a finding, never an exception."""
        try:
            outcomes = list(self.ask(context))
        except ClientError as error:
            outcomes = [_refused(error)]
        except BotoCoreError as error:
            outcomes = [
                unknown(str(error), "Check the credentials, the region and the network, then repeat.")
            ]
        return [
            Finding(check=self.name, status=status, detail=detail, remedy=remedy)
            for status, detail, remedy in outcomes
        ]


def _refused(error: ClientError) -> Outcome:
    operation = error.operation_name
    if is_denied(error):
        return unknown(f"{operation} is not allowed", f"Allow {operation} to the caller, then repeat.")
    message = error.response["Error"].get("Message", "")
    return unknown(
        f"{operation} answered: {message}", "Repeat; if it stays, look at the service's health page."
    )


def passed(detail: str) -> Outcome:
    return Status.PASS, detail, ""


def warning(detail: str, remedy: str) -> Outcome:
    return Status.WARN, detail, remedy


def failed(detail: str, remedy: str) -> Outcome:
    return Status.FAIL, detail, remedy


def unknown(detail: str, remedy: str) -> Outcome:
    return Status.UNKNOWN, detail, remedy
