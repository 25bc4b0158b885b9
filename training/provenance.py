"""Where a result comes from: the commit and the versions it was measured with."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("ray", "torch", "numpy", "skyrl", "transformers", "peft")


def commit() -> str:
    """The image's GIT_COMMIT, else the checkout's, marked when files differ from it, else `unknown`."""
    if given := os.environ.get("GIT_COMMIT"):
        return given
    git = shutil.which("git")
    if git is None:
        return "unknown"
    described = subprocess.run(
        [git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def versions() -> dict[str, str]:
    """Python and the packages that decide a result."""
    return {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
