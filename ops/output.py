"""How every command speaks: tables for people, `--json` for machines, one line for what went wrong."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.text import Text

from stacks.faults import SettingsError
from stacks.settings import DEFAULT_ENVIRONMENT, Settings, load_settings

EnvironmentOption = Annotated[str, typer.Option("--environment", "-e", help="Environment of cdk.json.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
ContextOption = Annotated[str | None, typer.Option(help="kubectl context; the current one when left out.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DEFAULT = DEFAULT_ENVIRONMENT


class OperationError(Exception):
    """A command cannot do its work; the message says what, why and what to do."""


@contextmanager
def failures_as_one_line() -> Iterator[None]:
    """Turn what a person can act on into a line on standard error and exit code 1, without a stack trace."""
    try:
        yield
    except SettingsError as error:
        _leave(f"settings of cdk.json are refused:\n{error}")
    except OperationError as error:
        _leave(str(error))
    except (BotoCoreError, ClientError) as error:
        _leave(f"AWS refused: {error}")


def _leave(message: str) -> None:
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(1) from None


def settings_of(environment: str) -> Settings:
    return load_settings(environment)


def emit(payload: object, *, as_json: bool, show: Callable[[Console], None]) -> None:
    """Print the payload as JSON, or let `show` print it for people."""
    if as_json:
        typer.echo(json.dumps(payload, default=plain, indent=2))
    else:
        show(Console(soft_wrap=True))


def plain(value: object) -> Any:
    """For json.dumps: what has no JSON form of its own."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
