"""What the scenarios did, for the table at the end of the run."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.emulated.account import Account, Action

COLUMNS = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.DELETE, Action.RETAIN)


@dataclass(kw_only=True)
class Row:
    """One scenario."""

    scenario: str
    actions: Counter[Action] = field(default_factory=Counter)
    faults: int = 0
    """Failures that were put in and survived."""
    left: int = 0
    """Resources that live after the scenario, the bootstrap stack's left out."""
    seconds: float = 0.0


@dataclass
class Ledger:
    """The rows so far."""

    rows: list[Row] = field(default_factory=list)

    @contextmanager
    def scenario(self, name: str, account: Account) -> Iterator[Row]:
        """Count what happens to the account inside the block."""
        row, start, known = Row(scenario=name), time.monotonic(), len(account.journal)
        self.rows.append(row)
        yield row
        row.seconds = time.monotonic() - start
        row.actions.update(entry.action for entry in account.journal[known:])
        row.left = sum(resource.stack != "CDKToolkit" for resource in account.resources.values())

    def table(self) -> list[str]:
        """The rows as text, with a heading."""
        names = ["created", "updated", "replaced", "deleted", "retained", "faults", "left", "seconds"]
        lines = [f"{'scenario':<52}" + "".join(f"{name:>10}" for name in names)]
        for row in self.rows:
            counts = [*(row.actions[column] for column in COLUMNS), row.faults, row.left]
            lines.append(
                f"{row.scenario:<52}" + "".join(f"{n:>10}" for n in counts) + f"{row.seconds:>10.1f}"
            )
        return lines
