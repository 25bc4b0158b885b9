"""What validation says of a mistake, and how it ends a synthesis."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from k8s.props import WorkloadRefused

type Manifest = dict[str, Any]
type Path = tuple[str | int, ...]


class Fault(NamedTuple):
    """A mistake inside one manifest."""

    path: str
    """Such as `spec.headGroupSpec.template.spec.containers[0].image`."""
    rule: str
    """What the value is and what it should be."""
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault and the manifest that it is in."""

    manifest: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.manifest}: {self.fault.path}: {self.fault.rule}. {self.fault.remedy}"


class ManifestsRefused(WorkloadRefused):
    """Kubernetes, KubeRay or the scheduler would refuse these manifests; the message has a line a finding."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


def name_of(manifest: Manifest) -> str:
    """`RayJob ray/maze-1`, or as much of it as the manifest has."""
    metadata = manifest.get("metadata")
    known: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    namespace, name = known.get("namespace"), known.get("name", "without a name")
    return f"{manifest.get('kind', 'object')} {f'{namespace}/' if namespace else ''}{name}"


def every_value(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """A value and all that it contains, each with its path."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from every_value(item, (*path, key))


def join_path(parts: Iterable[str | int]) -> str:
    """Path parts as people write them: ("spec", "containers", 0) is `spec.containers[0]`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "(root)"
