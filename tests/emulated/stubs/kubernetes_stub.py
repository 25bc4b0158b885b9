"""What the three stub tools share: the cluster's file, the caller, and the log of calls.

The engine's side of these files is `tests/emulated/kubernetes.py`. Stubs import nothing but the standard
library, so that one starts in a few hundredths of a second.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(os.environ["EMULATED_KUBERNETES"])


def option(arguments: list[str], name: str) -> str | None:
    """The value after an option, or None."""
    return arguments[arguments.index(name) + 1] if name in arguments else None


def fail(message: str) -> NoReturn:
    """End as the tool does when the API server refuses."""
    sys.exit(message)


def record(tool: str, arguments: list[str], objects: list[dict[str, Any]]) -> None:
    """Note the call for the tests."""
    with (FOLDER / "calls.jsonl").open("a") as log:
        log.write(json.dumps({"tool": tool, "arguments": arguments, "objects": objects}) + "\n")


def cluster_file(name: str) -> Path:
    """The file of a live cluster; ends the tool when there is no such cluster."""
    file = FOLDER / f"{name}.json"
    if not file.exists():
        fail(f"An error occurred (ResourceNotFoundException): No cluster found for name: {name}.")
    return file


def entered_cluster(arguments: list[str]) -> Path:
    """The cluster of the kubeconfig, if the caller has an access entry there."""
    config = option(arguments, "--kubeconfig") or os.environ["KUBECONFIG"]
    file = cluster_file(json.loads(Path(config).read_text())["cluster"])
    if os.environ["EMULATED_CALLER"] not in json.loads(file.read_text())["callers"]:
        fail("error: You must be logged in to the server (Unauthorized)")
    return file


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a stream of JSON documents, lists unfolded."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text.rstrip()):
        document, position = decoder.raw_decode(text, position)
        position += len(text[position:]) - len(text[position:].lstrip())
        yield from document["items"] if document.get("kind") == "List" else [document]
