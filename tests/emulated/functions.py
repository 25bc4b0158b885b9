"""Lambda functions of the emulated account: their own Python, from the assets that the CDK CLI published.

Not emulated: memory limits, concurrency, VPC networking, layers (the command line tools in them are the
stubs of `stubs/`) and Node runtimes.
"""

import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.emulated.account import Account, Resource
from tests.emulated.failures import ResourceFailure

_SANDBOX = Path(__file__).parent / "sandbox.py"
_STUBS = Path(__file__).parent / "stubs"
_LONGEST_INVOCATION = 120.0
"""Seconds; a function's own timeout counts where it is shorter."""


class FunctionError(Exception):
    """The function raised or ran out of time; the message is what Lambda's caller would see."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One call of one function, for tests to look at."""

    function: str
    event: Mapping[str, Any]


@dataclass(kw_only=True)
class Functions:
    """Finds functions in the account and runs them."""

    account: Account
    folder: Path
    """Unpacked code, logs and scratch space."""
    read_object: Callable[[str, str], bytes]
    """Bucket and key -> content, from the emulated S3."""
    environment: Mapping[str, str]
    """What every function's environment has: endpoints, credentials, region."""
    on_invoke: Callable[[Resource], None]
    """Told of each invocation: Lambda writes to the function's log group."""
    timeout: float = _LONGEST_INVOCATION
    invocations: list[Invocation] = field(default_factory=list)
    _process: "subprocess.Popen[str] | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, arn: str) -> Resource:
        """The live function with this ARN or name."""
        for function in self.account.of_type("AWS::Lambda::Function"):
            if arn in (function.identity.attributes["Arn"], function.identity.ref):
                return function
        raise ResourceFailure(f"Function not found: {arn}")

    def invoke(self, arn: str, event: Mapping[str, Any]) -> Any:
        """What the function returns; raises FunctionError when it raises or takes too long."""
        function = self.find(arn)
        self.invocations.append(Invocation(function=function.logical_id, event=event))
        self.on_invoke(function)
        with self._lock:
            answer = self._ask(self._request(function, event))
        if "error" in answer:
            raise FunctionError(answer["error"])
        return answer["payload"]

    def close(self) -> None:
        """End the sandbox."""
        if self._process and self._process.stdin:
            self._process.stdin.close()
            self._process.wait(timeout=10)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, _SANDBOX], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def _request(self, function: Resource, event: Mapping[str, Any]) -> dict[str, Any]:
        properties = function.properties
        scratch = self.folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        variables = properties.get("Environment", {}).get("Variables", {})
        return {
            "event": event,
            "code": str(self._unpacked(function)),
            "handler": properties["Handler"],
            "function_name": function.identity.ref,
            "function_arn": function.identity.attributes["Arn"],
            "timeout": min(float(properties.get("Timeout", 3)), self.timeout),
            "log": str(self.folder / f"{function.logical_id}.log"),
            "environment": {
                **self.environment,
                "PATH": os.pathsep.join((str(_STUBS), str(Path(sys.executable).parent), os.defpath)),
                "TEST_OUTDIR": str(scratch),
                "EMULATED_CALLER": properties["Role"],
                "AWS_LAMBDA_FUNCTION_NAME": function.identity.ref,
                **{name: str(value) for name, value in variables.items()},
            },
        }

    def _unpacked(self, function: Resource) -> Path:
        code = function.properties["Code"]
        if "ZipFile" in code:
            folder = self.folder / "code" / function.identity.ref
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "index.py").write_text(code["ZipFile"])
            return folder
        name: str = code["S3Key"].removesuffix(".zip").replace("/", "-")
        folder = self.folder / "code" / name
        if not folder.exists():
            content = self.read_object(code["S3Bucket"], code["S3Key"])
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(folder)
            _find_tools_on_path(folder)
        return folder


def _find_tools_on_path(folder: Path) -> None:
    """Let handlers that name a tool by its place in a Lambda layer find the stub on PATH instead."""
    for file in folder.rglob("*.py"):
        text = file.read_text()
        if '"/opt/awscli/aws"' in text:
            file.write_text(text.replace('"/opt/awscli/aws"', '"aws"'))
