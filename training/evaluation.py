"""Playing the fixed mazes: with the scripted policies here, or with any other through `play`.

The scripted policies know the maze itself; they give the scale on which a trained policy is read: the oracle
shows that every maze can be solved in time, random and greedy what no learning at all reaches.
"""

import random
from collections.abc import Callable, Iterable
from enum import StrEnum

from training.actions import ACTIONS, Move, Stop
from training.maze import Episode, Maze, MazeEnvironment, best_action, neighbour

type ScriptedPolicy = Callable[[MazeEnvironment, random.Random], str]


class PolicyName(StrEnum):
    """A policy that needs no model."""

    ORACLE = "oracle"
    """Walks the shortest path and stops."""
    RANDOM = "random"
    """Draws one of the five actions each turn."""
    GREEDY = "greedy"
    """Steps to the open neighbour nearest to the target in a straight line; walls lead it into dead ends."""


def oracle(environment: MazeEnvironment, _: random.Random) -> str:
    """The best action."""
    return str(best_action(environment.maze, environment.agent))


def uniform(_: MazeEnvironment, stream: random.Random) -> str:
    """Any of the five actions."""
    return str(stream.choice(ACTIONS))


def greedy(environment: MazeEnvironment, stream: random.Random) -> str:
    """The open neighbour with the smallest city-block distance to the target, ties by chance."""
    maze, here = environment.maze, environment.agent
    if here == maze.target:
        return str(Stop())
    moves = [action for action in ACTIONS if isinstance(action, Move)]
    choices = [move for move in moves if not maze.is_wall(neighbour(here, move.direction))]

    def distance(move: Move) -> int:
        row, column = neighbour(here, move.direction)
        return abs(row - maze.target[0]) + abs(column - maze.target[1])

    nearest = min(map(distance, choices))
    return str(stream.choice([move for move in choices if distance(move) == nearest]))


POLICIES: dict[PolicyName, ScriptedPolicy] = {
    PolicyName.ORACLE: oracle,
    PolicyName.RANDOM: uniform,
    PolicyName.GREEDY: greedy,
}


def play(mazes: Iterable[Maze], *, policy: ScriptedPolicy, max_turns: int, seed: int) -> list[Episode]:
    """One episode a maze."""
    stream = random.Random(f"scripted policy {seed}")
    return [_play_one(MazeEnvironment(maze=maze, max_turns=max_turns), policy, stream) for maze in mazes]


def _play_one(environment: MazeEnvironment, policy: ScriptedPolicy, stream: random.Random) -> Episode:
    while not environment.done:
        environment.step(policy(environment, stream))
    return environment.episode()
