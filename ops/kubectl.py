"""kubectl as a library: JSON out, bounded waits, and errors that name what is missing.

Every call names its context, so that a command never acts on whatever cluster the shell points at.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.output import OperationError

type Json = Mapping[str, Any]

REQUEST_SECONDS = 60.0
NOT_FOUND = "(NotFound)"
NO_SUCH_KIND = "the server doesn't have a resource type"


class KubectlError(OperationError):
    """kubectl failed; the message has its command and its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl for one cluster and namespace."""

    context: str | None
    """Of the kubeconfig; None is the current one."""
    namespace: str

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = REQUEST_SECONDS) -> str:
        """Standard output of a call. Raises KubectlError when it fails or takes too long."""
        command = self.command(*arguments)
        shown = " ".join(["kubectl", *arguments])
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(
                f"`{shown}` took longer than {seconds:.0f} s: is the cluster reachable?"
            ) from error
        if done.returncode != 0:
            raise KubectlError(f"`{shown}` failed: {done.stderr.strip()}")
        return done.stdout

    def command(self, *arguments: str) -> list[str]:
        """The full command line, for processes that stay."""
        program = shutil.which("kubectl")
        if program is None:
            raise KubectlError("kubectl is not on the PATH: install it, in the version of the cluster")
        context = [] if self.context is None else ["--context", self.context]
        return [program, *context, "--namespace", self.namespace, *arguments]

    def items(self, kind: str, *arguments: str) -> list[Json]:
        """All objects of a kind; none as well when the cluster does not know the kind."""
        try:
            answer = self.run("get", kind, "--output", "json", *arguments)
        except KubectlError as error:
            if NO_SUCH_KIND in str(error):
                return []
            raise
        found: list[Json] = json.loads(answer)["items"]
        return found

    def find(self, kind: str, name: str) -> Json | None:
        """One object, or None when there is none of that name."""
        try:
            answer = self.run("get", kind, name, "--output", "json")
        except KubectlError as error:
            if NOT_FOUND in str(error) or NO_SUCH_KIND in str(error):
                return None
            raise
        found: Json = json.loads(answer)
        return found

    def apply(self, manifest: Json) -> None:
        self.run("apply", "--filename", "-", stdin=json.dumps(manifest))
