"""The last step of the image's build: do its parts fit together? `python -m training.image.verify`.

Nothing here needs a GPU or a driver: the build machine has neither. Compiled extensions are therefore not
imported; their versions are compared instead.
"""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

PYTHON = (3, 12)
VISGYM = Path("/opt/visgym")
IMPORTED = ("ray", "skyrl_gym", "training")
COMPILED_FOR_TORCH = ("flash-attn", "causal-conv1d")
"""Their versions end in `+cu.<CUDA>.torch.<torch>`: what the file was built for."""
LIBRARIES = ("libfabric.so", "libnccl-net.so")
"""Without the first EFA is out of reach, without the second NCCL does not use it."""


def problems(
    *, versions: Mapping[str, str], linked: str, imports: Callable[[str, Path | None], str], visgym: Path
) -> list[str]:
    """What is wrong with an image, a line each; empty when nothing is.

    `versions` are the installed distributions, `linked` is the output of `ldconfig -p`, and `imports` tells
    which file a module comes from in a fresh interpreter, with a folder first on its path if one is given.
    """
    found = [f"{module} cannot be imported" for module in IMPORTED if not imports(module, None)]
    found += [f"{library} is not known to the linker" for library in LIBRARIES if library not in linked]
    found += [fault for name in COMPILED_FOR_TORCH if (fault := _torch_mismatch(name, versions))]
    if file := imports("gymnasium", None):
        found.append(f"the name gymnasium is taken by {file}; VisGym belongs into {visgym} only")
    file = imports("gymnasium", visgym)
    if not file.startswith(f"{visgym}/"):
        found.append(f"with {visgym} first on the path gymnasium is {file or 'missing'}, not VisGym")
    return found


def _torch_mismatch(name: str, versions: Mapping[str, str]) -> str | None:
    if name not in versions:
        return f"{name} is not installed"
    torch = ".".join(versions["torch"].split("+")[0].split(".")[:2])
    built_for = versions[name].partition(".torch.")[2]
    if built_for == torch:
        return None
    return f"{name} {versions[name]} is built for torch {built_for or '?'}, installed is {torch}"


def file_of_module(module: str, first: Path | None) -> str:
    """Where a fresh interpreter finds the module, or "" when it does not."""
    program = f"import {module}; print({module}.__file__)"
    path = os.pathsep.join(filter(None, (str(first or ""), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip().splitlines()[-1] if run.returncode == 0 else ""


def main() -> int:
    """Check the image that this runs in; prints what is wrong."""
    found = problems(
        versions={
            distribution.name.lower(): distribution.version
            for distribution in importlib.metadata.distributions()
        },
        linked=subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout,
        imports=file_of_module,
        visgym=VISGYM,
    )
    if sys.version_info[:2] != PYTHON:
        found.append(f"Python is {sys.version.split()[0]}, not {'.'.join(map(str, PYTHON))}")
    print("\n".join(found) or "the image's parts fit together")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
