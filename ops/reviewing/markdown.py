"""A review as the comment of a pull request: refusal, cost, who may do what, then stack by stack."""

from collections import Counter
from collections.abc import Iterable, Iterator

from ops.reviewing.costs import CostDifference
from ops.reviewing.manifests import ObjectChange
from ops.reviewing.review import Review
from ops.reviewing.templates import Action, ResourceChange
from ops.reviewing.values import Difference

MAX_CHARACTERS = 60_000
"""GitHub refuses comments of more than 65,536."""
MAX_DIFFERENCES = 12
"""Shown of one resource; the rest is counted."""


def markdown(review: Review) -> str:
    lines = ["## Infrastructure review", "", *_verdict(review), *_cost(review.cost)]
    access = [each for each in review.resources if each.is_access]
    others = [each for each in review.resources if not each.is_access]
    lines += _table("IAM and security groups", map(_resource_row_with_stack, access))
    for stack in dict.fromkeys(each.stack for each in others):
        rows = (_resource_row(each) for each in others if each.stack == stack)
        lines += _table(f"Stack {stack}", rows)
    lines += _table("Manifests", map(_object_row, review.manifests or ()))
    return _cut(lines)


def _verdict(review: Review) -> Iterator[str]:
    if not review.resources:
        yield "No resource changes."
    else:
        counts = Counter(each.action for each in review.resources)
        yield ", ".join(f"{counts[action]} {action}" for action in Action if counts[action]) + "."
    yield ""
    if not review.destructive:
        return
    verdict = "Allowed" if review.allow_destructive else "Refused"
    yield f"**{verdict}: a deploy would lose what these hold**"
    yield ""
    for each in review.destructive:
        kept = " (the old one is kept by its policy)" if each.is_kept else ""
        yield f"- `{each.stack}`: `{each.name}` ({each.resource_type}) is {each.action}{kept}{_because(each)}"
    yield ""


def _because(change: ResourceChange) -> str:
    return f", because of {', '.join(f'`{name}`' for name in change.because)}" if change.because else ""


def _cost(cost: CostDifference) -> Iterator[str]:
    if cost.before is None or cost.after is None:
        yield f"Cost: unknown ({cost.unknown})."
        yield ""
        return
    if not cost.changes:
        yield f"Cost with all nodes up: ${cost.after:.2f} per hour as before (estimate)."
        yield ""
        return
    delta = cost.after - cost.before
    signed = f"{'-' if delta < 0 else '+'}${abs(delta):.2f}"
    yield f"Cost with all nodes up: ${cost.before:.2f} → ${cost.after:.2f} per hour, {signed} (estimate)."
    yield ""
    yield from _cost_table(cost)


def _cost_table(cost: CostDifference) -> Iterator[str]:
    yield "| component | before | after | |"
    yield "| --- | ---: | ---: | --- |"
    for each in cost.changes:
        yield f"| {each.component} | ${each.before:.2f} | ${each.after:.2f} | {_cell(each.basis)} |"
    yield ""


def _table(title: str, rows: Iterable[str]) -> list[str]:
    rows = list(rows)
    return [f"### {title}", "", "| | what | how |", "| --- | --- | --- |", *rows, ""] if rows else []


def _resource_row(change: ResourceChange) -> str:
    what = f"`{change.name}` {change.resource_type}"
    return f"| {change.action} | {what} | {_how(change.differences, change.because)} |"


def _resource_row_with_stack(change: ResourceChange) -> str:
    what = f"{change.stack}: `{change.name}` {change.resource_type}"
    return f"| {change.action} | {what} | {_how(change.differences, change.because)} |"


def _object_row(change: ObjectChange) -> str:
    action = "removed" if change.action is Action.DESTROYED else change.action
    return f"| {action} | {change.name} | {_how(change.differences)} |"


def _how(differences: tuple[Difference, ...], because: tuple[str, ...] = ()) -> str:
    parts = [f"because of `{_cell(name)}`" for name in because]
    parts += [
        f"`{_cell(each.path)}`: `{_cell(each.before)}` → `{_cell(each.after)}`"
        for each in differences[:MAX_DIFFERENCES]
    ]
    if len(differences) > MAX_DIFFERENCES:
        parts.append(f"and {len(differences) - MAX_DIFFERENCES} more")
    return "<br>".join(parts)


def _cell(text: str) -> str:
    return text.replace("`", "'").replace("|", "\\|").replace("\n", " ")


def _cut(lines: list[str]) -> str:
    text = "\n".join(lines).rstrip()
    if len(text) <= MAX_CHARACTERS:
        return text
    kept = text[:MAX_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n\nCut here: {len(text) - len(kept)} characters more. Run `make review` to read them."
