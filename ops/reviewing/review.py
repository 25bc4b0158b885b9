"""What a review finds, put together."""

from dataclasses import dataclass
from pathlib import Path

from ops.reviewing.assembly import read_assembly
from ops.reviewing.costs import CostDifference, cost_difference
from ops.reviewing.manifests import ObjectChange, manifest_changes
from ops.reviewing.templates import ResourceChange, changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The difference between two versions of a deployment."""

    resources: tuple[ResourceChange, ...]
    manifests: tuple[ObjectChange, ...] | None
    """None when no manifests were given."""
    cost: CostDifference
    allow_destructive: bool

    @property
    def destructive(self) -> tuple[ResourceChange, ...]:
        return tuple(change for change in self.resources if change.is_destructive)

    @property
    def is_refused(self) -> bool:
        return bool(self.destructive) and not self.allow_destructive

    def as_json(self) -> dict[str, object]:
        return {
            "is_refused": self.is_refused,
            "destructive": self.destructive,
            "cost": self.cost,
            "resources": self.resources,
            "manifests": self.manifests,
        }


def compare(
    base: Path,
    head: Path,
    *,
    manifests: tuple[Path, Path] | None = None,
    allow_destructive: bool = False,
) -> Review:
    """Read both sides. Raises OperationError when one cannot be read."""
    before, after = read_assembly(base), read_assembly(head)
    return Review(
        resources=tuple(changes(before, after)),
        manifests=None if manifests is None else tuple(manifest_changes(*manifests)),
        cost=cost_difference(before, after),
        allow_destructive=allow_destructive,
    )
