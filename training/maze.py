"""The visual 2D maze, with the behaviour an agent can observe in VisGym's `maze_2d` (commit 0289034).

A maze is a tree of corridors behind a solid wall. The agent starts in one corner, the target is the opposite
one. Each turn the agent sees a picture and answers with an action; only `stop` on the target solves the maze,
and nothing but `stop` ends an episode in VisGym, so the turn limit is ours.

Two sources of mazes:
- seeds 0..63 at 9x9 (easy) and 11x11 (hard): the 64 fixed evaluation mazes, equal to VisGym's pixel by pixel
  (`data/maze_2d_seeds.json` holds them with the SHA-256 of each first frame);
- every other seed and any odd size: Wilson's loop-erased random walk, VisGym's algorithm with our own random
  stream, so these mazes follow the same distribution without being the same ones.
"""

import functools
import hashlib
import itertools
import json
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.actions import DIRECTIONS, Action, Direction, Move, ParsedAnswer, Stop, parse_answer

type Cell = tuple[int, int]
type Frame = NDArray[np.uint8]

EASY_SIZE = 9
HARD_SIZE = 11
MIN_SIZE = 5
# Seeds by use. Nothing is trained on below TRAINING_SEEDS, whatever the size.
PUBLISHED_SEEDS = range(64)
HELD_OUT_SEEDS = range(1_000, 1_000_000)
TRAINING_SEEDS = range(1_000_000, 2**31)

CELL_PIXELS = 25
WALL_COLOUR = (169, 169, 169)
PATH_COLOUR = (255, 255, 255)
TARGET_COLOUR = (255, 0, 0)
AGENT_COLOUR = (0, 0, 255)

_PUBLISHED_FILE = Path(__file__).parent / "data" / "maze_2d_seeds.json"
_PUBLISHED_KEYS = {EASY_SIZE: "easy", HARD_SIZE: "hard"}


class StopReason(StrEnum):
    """Why an episode ended."""

    STOPPED_ON_TARGET = "stopped_on_target"
    """The agent stopped on the target: the only ending that counts as solved."""
    STOPPED_ELSEWHERE = "stopped_elsewhere"
    """The agent stopped on any other cell."""
    TURN_LIMIT = "turn_limit"
    """No stop within max_turns; standing on the target does not help."""
    CONTEXT_LENGTH = "context_length"
    """The conversation outgrew the model's input limit before the agent stopped."""


@dataclass(frozen=True)
class Maze:
    """One maze: rows of `#` (wall) and `.` (path), the agent's start and the target as (row, column)."""

    size: int
    seed: int
    rows: tuple[str, ...]
    start: Cell
    target: Cell

    def is_wall(self, cell: Cell) -> bool:
        """Whether the agent bumps into `cell`."""
        return self.rows[cell[0]][cell[1]] == "#"

    @functools.cached_property
    def next_cells(self) -> Mapping[Cell, Cell]:
        """For every cell that leads to the target: the next cell on the way; the target leads to itself."""
        next_cells = {self.target: self.target}
        queue = deque([self.target])
        while queue:
            here = queue.popleft()
            for there in self._open_neighbours(here):
                if there not in next_cells:
                    next_cells[there] = here
                    queue.append(there)
        return next_cells

    @functools.cached_property
    def shortest_path(self) -> tuple[Cell, ...]:
        """The cells from start to target, both included. A tree has one simple path: this one."""
        path = [self.start]
        while path[-1] != self.target:
            path.append(self.next_cells[path[-1]])
        return tuple(path)

    @property
    def shortest_turns(self) -> int:
        """Turns a perfect agent needs: every move, and the stop."""
        return len(self.shortest_path)

    @property
    def fingerprint(self) -> str:
        """Equal for mazes with equal walls, start and target, whatever their seeds."""
        return hashlib.sha256("\n".join((*self.rows, f"{self.start} {self.target}")).encode()).hexdigest()

    def _open_neighbours(self, cell: Cell) -> Iterator[Cell]:
        return (there for d in DIRECTIONS if not self.is_wall(there := neighbour(cell, d)))


def neighbour(cell: Cell, direction: Direction) -> Cell:
    """The cell one step away."""
    return cell[0] + direction.value[0], cell[1] + direction.value[1]


def direction_between(origin: Cell, goal: Cell) -> Direction:
    """The direction of one step from `origin` to its neighbour `goal`."""
    return Direction((goal[0] - origin[0], goal[1] - origin[1]))


# --- where mazes come from --------------------------------------------------------------------------------


def maze_for(*, size: int, seed: int) -> Maze:
    """The maze of a seed: VisGym's own for the published seeds of 9x9 and 11x11, else a generated one.

    Raises ValueError for a size that is even or below 5, or a negative seed.
    """
    if size < MIN_SIZE or size % 2 == 0:
        raise ValueError(f"maze size {size}: must be odd and at least {MIN_SIZE}; use 9 (easy) or 11 (hard)")
    if seed < 0:
        raise ValueError(f"maze seed {seed}: must not be negative")
    if size in _PUBLISHED_KEYS and seed in PUBLISHED_SEEDS:
        return published_mazes(size)[seed]
    return _generated_maze(size, seed)


@functools.cache
def published_mazes(size: int) -> tuple[Maze, ...]:
    """VisGym's mazes of seeds 0..63 at 9x9 or 11x11, in the order of their seeds."""
    entries = json.loads(_PUBLISHED_FILE.read_text())[_PUBLISHED_KEYS[size]]
    return tuple(
        Maze(
            size=size,
            seed=entry["seed"],
            rows=tuple(entry["maze"]),
            start=tuple(entry["agent"]),
            target=tuple(entry["target"]),
        )
        for entry in entries
    )


def training_mazes(*, size: int, seed: int | str, exclude: Sequence[Maze] = ()) -> Iterator[Maze]:
    """Endless training mazes of a run's seed; none has a seed or a layout of the mazes in `exclude`.

    Small sizes have few layouts (16 at 5x5, 768 at 7x7): excluding all of them would never yield, so the
    layout is compared from 9x9 on (401,408 layouts).
    """
    taken = {maze.fingerprint for maze in exclude} if size >= EASY_SIZE else set()
    stream = random.Random(f"training mazes {size} {seed}")
    seen_seeds: set[int] = set()
    while True:
        maze_seed = stream.randrange(TRAINING_SEEDS.start, TRAINING_SEEDS.stop)
        if maze_seed in seen_seeds:
            continue
        seen_seeds.add(maze_seed)
        maze = maze_for(size=size, seed=maze_seed)
        if maze.fingerprint not in taken:
            yield maze


def _generated_maze(size: int, seed: int) -> Maze:
    stream = random.Random(f"maze {size} {seed}")
    open_cells = _wilson(size, stream)
    rows = tuple("".join("." if (r, c) in open_cells else "#" for c in range(size)) for r in range(size))
    last = size - 2
    start = stream.choice([(1, 1), (last, last), (last, 1), (1, last)])
    return Maze(
        size=size, seed=seed, rows=rows, start=start, target=(size - 1 - start[0], size - 1 - start[1])
    )


def _wilson(size: int, stream: random.Random) -> set[Cell]:
    """Open cells of a uniform spanning tree over the odd rows and columns, with the cells between them."""
    nodes = list(itertools.product(range(1, size, 2), range(1, size, 2)))
    stream.shuffle(nodes)
    open_cells = {nodes.pop()}
    for node in nodes:
        for here, there in itertools.pairwise(_loop_erased_walk(node, open_cells, size, stream)):
            open_cells.add(here)
            open_cells.add(((here[0] + there[0]) // 2, (here[1] + there[1]) // 2))
    return open_cells


def _loop_erased_walk(node: Cell, tree: set[Cell], size: int, stream: random.Random) -> list[Cell]:
    """A random walk from `node` until it meets the tree; overwriting the way out of a cell erases loops."""
    way_out: dict[Cell, Cell] = {}
    here = node
    while here not in tree:
        steps = [(here[0] + 2 * d.value[0], here[1] + 2 * d.value[1]) for d in DIRECTIONS]
        way_out[here] = stream.choice([s for s in steps if 0 < s[0] < size and 0 < s[1] < size])
        here = way_out[here]
    walk = [node]
    while walk[-1] not in tree:
        walk.append(way_out[walk[-1]])
    return walk


# --- what the agent sees ----------------------------------------------------------------------------------


def _disc() -> NDArray[np.bool_]:
    """The pixels of the agent in its cell.

    VisGym draws a circle of a quarter cell (6.25 px) with pygame; at that radius it is this octagon, 12 px
    wide, around the corner between pixels 11 and 12.
    """
    distance = np.abs(np.arange(CELL_PIXELS) - 11.5)
    rows, columns = distance[:, None], distance[None, :]
    return (rows + columns <= 7) & (rows < 6) & (columns < 6)


AGENT_DISC = _disc()


@functools.lru_cache(maxsize=512)
def _background(maze: Maze) -> Frame:
    cells = np.empty((maze.size, maze.size, 3), np.uint8)
    for cell in itertools.product(range(maze.size), range(maze.size)):
        cells[cell] = WALL_COLOUR if maze.is_wall(cell) else PATH_COLOUR
    cells[maze.target] = TARGET_COLOUR
    return cells.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)


def render(maze: Maze, agent: Cell, *, left_target: bool = False) -> Frame:
    """The picture of a state as RGB uint8, shape (25 * size, 25 * size, 3).

    `left_target`: VisGym wipes the agent's old place with white, so a target that was stepped on and left
    keeps a white disc.
    """
    frame = _background(maze).copy()
    if left_target:
        _paint(frame, maze.target, PATH_COLOUR)
    _paint(frame, agent, AGENT_COLOUR)
    return frame


def _paint(frame: Frame, cell: Cell, colour: tuple[int, int, int]) -> None:
    top, left = cell[0] * CELL_PIXELS, cell[1] * CELL_PIXELS
    frame[top : top + CELL_PIXELS, left : left + CELL_PIXELS][AGENT_DISC] = colour


def prompt_for(size: int) -> str:
    """The task in words: what the colours mean, the two actions, when it counts as solved."""
    return f"""You see a {size}x{size} maze from above. Grey cells are walls and white cells are paths. \
The blue circle is you; the red square is your target.

Answer every picture with exactly one action:
('move', 0) moves right
('move', 1) moves up
('move', 2) moves left
('move', 3) moves down
('stop', 'stop') ends the episode

You solve the maze by stopping on the red square. A move into a wall only costs a turn."""


# --- playing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One answer and what came of it."""

    answer: ParsedAnswer
    cell: Cell
    """Where the agent is afterwards."""
    feedback: str


@dataclass(frozen=True)
class Episode:
    """A finished episode."""

    maze: Maze
    turns: tuple[Turn, ...]
    stop_reason: StopReason

    @property
    def solved(self) -> bool:
        """Reached the target AND stopped there."""
        return self.stop_reason is StopReason.STOPPED_ON_TARGET

    @property
    def well_formed_turns(self) -> int:
        """Turns that earn format credit."""
        return sum(turn.answer.well_formed for turn in self.turns)

    @property
    def invalid_actions(self) -> int:
        """Turns in which no action was understood."""
        return sum(turn.answer.action is None for turn in self.turns)

    @property
    def path(self) -> tuple[Cell, ...]:
        """Where the agent was, turn by turn, the start included."""
        return (self.maze.start, *(turn.cell for turn in self.turns))

    @property
    def efficiency(self) -> float | None:
        """Shortest turns over turns used, at most 1; None when not solved."""
        return self.maze.shortest_turns / len(self.turns) if self.solved else None


FEEDBACK_DONE = "Action executed successfully."
FEEDBACK_WALL = "Cannot move into a wall."


@dataclass
class MazeEnvironment:
    """One episode in one maze, played with texts; used once. It never raises for anything a model answers."""

    maze: Maze
    max_turns: int
    agent: Cell = field(init=False)
    stop_reason: StopReason | None = field(init=False, default=None)
    _turns: list[Turn] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ValueError(f"max_turns {self.max_turns}: must be at least 1")
        self.agent = self.maze.start

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.stop_reason is not None

    @property
    def left_target(self) -> bool:
        """Whether the agent has stepped on the target and off it again; the picture shows it."""
        return self.agent != self.maze.target and any(t.cell == self.maze.target for t in self._turns)

    def observe(self) -> Frame:
        """The picture of the present state."""
        return render(self.maze, self.agent, left_target=self.left_target)

    def step(self, answer: str) -> Turn:
        """Play one turn. Raises RuntimeError when the episode has already ended."""
        if self.done:
            raise RuntimeError("the episode has ended; an environment is used once")
        parsed = parse_answer(answer)
        feedback = self._apply(parsed.action) if parsed.action else parsed.problem
        turn = Turn(answer=parsed, cell=self.agent, feedback=feedback)
        self._turns.append(turn)
        if not self.done and len(self._turns) >= self.max_turns:
            self.stop_reason = StopReason.TURN_LIMIT
        return turn

    def episode(self) -> Episode:
        """The record of the finished episode. Raises RuntimeError while it still runs."""
        if self.stop_reason is None:
            raise RuntimeError("the episode has not ended")
        return Episode(maze=self.maze, turns=tuple(self._turns), stop_reason=self.stop_reason)

    def cut_off(self) -> None:
        """End the episode from outside: the conversation has outgrown the model's input limit."""
        if not self.done:
            self.stop_reason = StopReason.CONTEXT_LENGTH

    def _apply(self, action: Action) -> str:
        match action:
            case Stop():
                on_target = self.agent == self.maze.target
                self.stop_reason = StopReason.STOPPED_ON_TARGET if on_target else StopReason.STOPPED_ELSEWHERE
            case Move(direction):
                there = neighbour(self.agent, direction)
                if self.maze.is_wall(there):
                    return FEEDBACK_WALL
                self.agent = there
        return FEEDBACK_DONE


# --- what can be reached ----------------------------------------------------------------------------------


def best_action(maze: Maze, cell: Cell) -> Action:
    """The action of a perfect agent that stands on `cell`."""
    if cell == maze.target:
        return Stop()
    return Move(direction_between(cell, maze.next_cells[cell]))


def solution(maze: Maze) -> tuple[Action, ...]:
    """The shortest actions that solve the maze, the stop included."""
    return tuple(best_action(maze, cell) for cell in maze.shortest_path)


def solvable_within(mazes: Sequence[Maze], *, max_turns: int) -> int:
    """How many of the mazes a perfect agent solves in `max_turns`: the ceiling of any solve rate."""
    return sum(maze.shortest_turns <= max_turns for maze in mazes)
