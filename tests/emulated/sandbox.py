"""Runs Lambda handlers: a process that forks once for each invocation, as Lambda has one sandbox for each.

A script of its own, never imported by the tests: it loads boto3 once, then reads one JSON request a line from
stdin and answers with one line on stdout. The handler's own output goes to the request's log file.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3  # noqa: F401  imported before the fork, so that no handler waits for it


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _run_child(request, write_end)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        print(answer or json.dumps(_death(status, request)), flush=True)


def _death(status: int, request: dict[str, Any]) -> dict[str, Any]:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return {"error": f"Task timed out after {request['timeout']:.2f} seconds"}
    return {"error": f"Runtime exited with status {status}"}


def _run_child(request: dict[str, Any], write_end: int) -> None:
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.setitimer(signal.ITIMER_REAL, request["timeout"])
    try:
        answer = {"payload": _call(request)}
    except Exception as error:  # noqa: BLE001  whatever a handler raises is what Lambda reports
        traceback.print_exc()
        answer = {"error": str(error), "error_type": type(error).__name__}
    with os.fdopen(write_end, "w") as pipe:
        json.dump(answer, pipe)
    sys.stdout.flush()
    os._exit(0)


def _call(request: dict[str, Any]) -> Any:
    os.environ.clear()
    os.environ.update(request["environment"])
    code = Path(request["code"])
    os.chdir(code)
    sys.path.insert(0, str(code))
    module_name, _, function_name = request["handler"].rpartition(".")
    function = getattr(importlib.import_module(module_name.replace("/", ".")), function_name)
    context = SimpleNamespace(
        function_name=request["function_name"],
        invoked_function_arn=request["function_arn"],
        aws_request_id="00000000-0000-0000-0000-000000000000",
        log_group_name=f"/aws/lambda/{request['function_name']}",
        log_stream_name="emulated",
        get_remaining_time_in_millis=lambda: int(request["timeout"] * 1000),
    )
    return function(request["event"], context)


if __name__ == "__main__":
    main()
