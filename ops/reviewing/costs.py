"""Dollars per hour before and after, component by component."""

from dataclasses import dataclass

from ops.cost import estimate
from ops.prices import shipped_prices
from ops.reviewing.assembly import Assembly
from stacks.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """One component whose cost changes, in US dollars per hour with all nodes up."""

    component: str
    before: float
    after: float
    basis: str
    """How the new figure comes about, or the old one of a component that goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDifference:
    """The whole deployment's."""

    before: float | None
    after: float | None
    unknown: str = ""
    """Why a side has no figure."""
    changes: tuple[CostChange, ...] = ()


def cost_difference(base: Assembly, head: Assembly) -> CostDifference:
    """By the settings that the assemblies record and the shipped prices."""
    before, after = _total(base.settings), _total(head.settings)
    if base.settings is None or head.settings is None:
        side, missing = ("base", base) if base.settings is None else ("head", head)
        return CostDifference(before=before, after=after, unknown=f"{side}: {missing.settings_refused}")
    old, new = _lines(base.settings), _lines(head.settings)
    changes = tuple(
        CostChange(
            component=component,
            before=old.get(component, (0.0, ""))[0],
            after=new.get(component, (0.0, ""))[0],
            basis=new.get(component, old.get(component, (0.0, "")))[1],
        )
        for component in dict.fromkeys((*old, *new))
        if old.get(component) != new.get(component)
    )
    return CostDifference(before=before, after=after, changes=changes)


def _total(settings: Settings | None) -> float | None:
    return None if settings is None else estimate(settings, instance_prices=shipped_prices()).usd_per_hour


def _lines(settings: Settings) -> dict[str, tuple[float, str]]:
    result = estimate(settings, instance_prices=shipped_prices())
    return {line.component: (line.usd_per_hour, line.basis) for line in (*result.instances, *result.services)}
