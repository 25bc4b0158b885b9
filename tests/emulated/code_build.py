"""CodeBuild as far as this project's functions call it: builds run the project's own buildspec.

The commands are the project's, run by bash in the unpacked source; `docker` is a stub that only pushes, to
the emulated registry. Not emulated: build images, caches, timeouts, permissions.
"""

import io
import os
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.emulated.account import Account, Resource

_STUBS = Path(__file__).parent / "stubs"


@dataclass(kw_only=True)
class CodeBuild:
    """Starts builds and tells how they went; the first question finds a build still running."""

    account: Account
    folder: Path
    read_object: Callable[[str, str], bytes]
    environment: Mapping[str, str]
    write_log: Callable[[str, str, list[str]], None]
    """Group, stream and lines -> CloudWatch Logs."""
    _builds: dict[str, dict[str, Any]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def operations(self) -> dict[str, Any]:
        """What this project's functions call."""
        return {"StartBuild": self._start_build, "BatchGetBuilds": self._batch_get_builds}

    def _start_build(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        name = parameters["projectName"]
        project = next(
            project
            for project in self.account.of_type("AWS::CodeBuild::Project")
            if project.identity.ref == name
        )
        build_id = f"{name}:{uuid.uuid4()}"
        variables = {
            **{
                item["Name"]: item["Value"]
                for item in project.properties["Environment"]["EnvironmentVariables"]
            },
            **{item["name"]: item["value"] for item in parameters.get("environmentVariablesOverride", [])},
        }
        self._builds[build_id] = {"id": build_id, **self._run(project, variables, build_id)}
        return {"build": {"id": build_id, "buildStatus": "IN_PROGRESS"}}

    def _batch_get_builds(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"builds": [self._status(build_id) for build_id in parameters["ids"]]}

    def _status(self, build_id: str) -> dict[str, Any]:
        if build_id not in self._seen:
            self._seen.add(build_id)
            return {"id": build_id, "buildStatus": "IN_PROGRESS"}
        return self._builds[build_id]

    def _run(self, project: Resource, variables: Mapping[str, str], build_id: str) -> dict[str, Any]:
        properties = project.properties
        completed = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", _script(properties["Source"]["BuildSpec"])],
            cwd=self._source(properties["Source"]["Location"]),
            env={
                **self.environment,
                "PATH": os.pathsep.join((str(_STUBS), str(Path(sys.executable).parent), os.defpath)),
                "EMULATED_CALLER": properties["ServiceRole"],
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        group = properties["LogsConfig"]["CloudWatchLogs"]["GroupName"]
        stream = build_id.rpartition(":")[2]
        self.write_log(group, stream, (completed.stdout + completed.stderr).splitlines() or ["(silent)"])
        message = f"COMMAND_EXECUTION_ERROR: exit status {completed.returncode}"
        return {
            "buildStatus": "FAILED" if completed.returncode else "SUCCEEDED",
            "phases": [{"phaseType": "BUILD", "contexts": [{"message": message}]}],
            "logs": {"groupName": group, "streamName": stream},
        }

    def _source(self, location: str) -> Path:
        bucket, _, key = location.partition("/")
        folder = self.folder / Path(key).stem
        if not folder.exists():
            with zipfile.ZipFile(io.BytesIO(self.read_object(bucket, key))) as archive:
                archive.extractall(folder)
        return folder


def _script(buildspec: str) -> str:
    phases = yaml.safe_load(buildspec)["phases"]
    return "\n".join(command for phase in phases.values() for command in phase["commands"])
