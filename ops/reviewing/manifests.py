"""Two folders of Kubernetes manifests (what `python -m k8s --output` writes), object by object."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ops.output import OperationError
from ops.reviewing.templates import Action
from ops.reviewing.values import Difference, differences


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One object that is applied anew, differently, or no more."""

    name: str
    """Kind, namespace and name, as `RayJob ray/maze-grpo`."""
    action: Action
    differences: tuple[Difference, ...] = ()


def manifest_changes(base: Path, head: Path) -> list[ObjectChange]:
    """Raises OperationError when a folder cannot be read."""
    before, after = _objects(base), _objects(head)
    found = []
    for name in (*before, *(name for name in after if name not in before)):
        if name not in after:
            found.append(ObjectChange(name=name, action=Action.DESTROYED))
        elif name not in before:
            found.append(ObjectChange(name=name, action=Action.ADDED))
        elif before[name] != after[name]:
            inner = tuple(differences(before[name], after[name]))
            found.append(ObjectChange(name=name, action=Action.CHANGED, differences=inner))
    return found


def _objects(folder: Path) -> Mapping[str, Any]:
    if not folder.is_dir():
        raise OperationError(f"{folder} is not a folder. Give one that make synth wrote, such as dist.")
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise OperationError(f"{folder} has no *.yaml. Render the manifests: make synth")
    return {_name(each, path): each for path in files for each in _documents(path)}


def _documents(path: Path) -> list[Any]:
    try:
        return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        raise OperationError(
            f"{path} cannot be read as YAML: {first}. Render it again: make synth"
        ) from error


def _name(document: Any, path: Path) -> str:
    try:
        metadata = document["metadata"]
        place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        return f"{document['kind']} {place}{metadata['name']}"
    except (KeyError, TypeError) as error:
        raise OperationError(f"{path} holds what is no Kubernetes object: no {error}.") from error
