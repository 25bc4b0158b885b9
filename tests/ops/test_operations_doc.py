"""docs/operations.md shows what the commands print, and shows every command."""

import pytest

from ops.__main__ import app

from .transcripts import BLOCK, DOCUMENT, output_of

TEXT = DOCUMENT.read_text(encoding="utf-8")
SHOWN = {match[1]: match[2] for match in BLOCK.finditer(TEXT)}


@pytest.mark.parametrize("command", SHOWN)
def test_the_document_shows_what_a_command_prints(command: str) -> None:
    assert SHOWN[command] == output_of(command), "write it anew: python -m tests.ops.transcripts"


def test_every_command_is_described() -> None:
    functions = [command.callback for command in app.registered_commands if command.callback]
    assert functions
    assert [function.__name__ for function in functions if f"`{function.__name__}`" not in TEXT] == []


def test_the_help_of_every_command_has_an_example() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"Example: python -m ops {command.callback.__name__}" in str(command.callback.__doc__)
