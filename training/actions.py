"""From a model's answer to an action: `('move', 0..3)` or `('stop', 'stop')`, and nothing is evaluated.

VisGym reads the answer with `ast.literal_eval`, so any word around the tuple makes the turn invalid. Models
write words around it. This parser finds the tuple in prose, code fences and `<action>` tags, runs it, and
says separately whether the answer was well formed: only well-formed turns earn format credit, so the model
is still taught to answer with exactly one bare tuple.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Direction(Enum):
    """A step in the maze as (rows, columns); the number is the one the action carries."""

    RIGHT = (0, 1)
    UP = (-1, 0)
    LEFT = (0, -1)
    DOWN = (1, 0)

    @property
    def number(self) -> int:
        """VisGym's number of the direction: 0 right, 1 up, 2 left, 3 down."""
        return DIRECTIONS.index(self)


DIRECTIONS = tuple(Direction)


@dataclass(frozen=True)
class Move:
    """Step one cell; a wall leaves the agent where it is."""

    direction: Direction

    def __str__(self) -> str:
        return f"('move', {self.direction.number})"


@dataclass(frozen=True)
class Stop:
    """End the episode here."""

    def __str__(self) -> str:
        return "('stop', 'stop')"


type Action = Move | Stop

# Every action in the order of the numbers a policy may sample: the four moves, then stop.
ACTIONS: tuple[Action, ...] = (*(Move(direction) for direction in DIRECTIONS), Stop())


@dataclass(frozen=True)
class ParsedAnswer:
    """What was understood: the action to run, if any, and whether the answer kept the format."""

    action: Action | None
    well_formed: bool
    problem: str
    """Why there is no action, in words for the model; empty when there is one."""


# The answer of a run-away generation may be long; the action stands at its end.
MAX_ANSWER_CHARACTERS = 20_000

_TUPLE = re.compile(
    r"""\(\s{0,9}(?P<q>['"])(?P<name>\w{1,32})(?P=q)\s{0,9},\s{0,9}
        (?:(?P<number>[+-]?\d{1,9})|(?P<p>['"])(?P<text>[^'"\n]{0,64})(?P=p))
        \s{0,9},?\s{0,9}\)""",
    re.VERBOSE,
)
_ACTION_TAG = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
# gymnasium's Text(4) space: one to four ASCII letters or digits.
_STOP_PAYLOAD = re.compile(r"[A-Za-z0-9]{1,4}")


def parse_answer(answer: str) -> ParsedAnswer:
    """The last action tuple of `answer`, looked for inside the last `<action>` tag if there is one.

    Well formed means: the answer (or the tag's content) is one valid tuple and nothing else. Never raises.
    """
    tail = answer[-MAX_ANSWER_CHARACTERS:]
    tags = _ACTION_TAG.findall(tail)
    text = tags[-1] if tags else tail
    candidates = list(_TUPLE.finditer(text))
    if not candidates:
        return ParsedAnswer(
            action=None, well_formed=False, problem="No action tuple was found in the answer."
        )
    chosen = candidates[-1]
    action, problem = _read(chosen)
    bare = text.strip() == chosen.group()
    return ParsedAnswer(action=action, well_formed=action is not None and bare, problem=problem)


def _read(match: re.Match[str]) -> tuple[Action | None, str]:
    name, number, text = match["name"], match["number"], match["text"]
    payload = number if number is not None else repr(text)
    if name == "move":
        if number is not None and 0 <= int(number) < len(DIRECTIONS):
            return Move(DIRECTIONS[int(number)]), ""
        return None, f"The direction {payload} is not one of 0, 1, 2, 3, so nothing was done."
    if name == "stop":
        if text is not None and _STOP_PAYLOAD.fullmatch(text):
            return Stop(), ""
        return None, f"The payload {payload} does not end the episode; use ('stop', 'stop')."
    return None, f"The action {name!r} is not known; use 'move' or 'stop'."
