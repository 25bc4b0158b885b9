"""The sets of mazes a policy is graded on, by name; none of them is ever trained on.

The published 64 are small: 61 of 64 has a 95 % interval of 87 to 98 %. The held-out sets are generated from
seeds below every training seed; 512 easy or 256 hard mazes support a claim about "above 95 %".
"""

import functools
from dataclasses import dataclass

from training.maze import (
    EASY_SIZE,
    HARD_SIZE,
    HELD_OUT_SEEDS,
    PUBLISHED_SEEDS,
    Maze,
    maze_for,
    solvable_within,
)


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A fixed list of mazes of one size, and the turns an episode gets."""

    name: str
    size: int
    seeds: range
    max_turns: int
    purpose: str

    @functools.cached_property
    def mazes(self) -> tuple[Maze, ...]:
        """The mazes in the order of their seeds."""
        return tuple(maze_for(size=self.size, seed=seed) for seed in self.seeds)

    @property
    def ceiling(self) -> int:
        """How many of them a perfect agent solves within the turns."""
        return solvable_within(self.mazes, max_turns=self.max_turns)


def _held_out(count: int) -> range:
    return HELD_OUT_SEEDS[:count]


# Turns: VisGym's own limits for easy (20) and hard (30); for the rest as many as every maze can be solved in.
EVALUATION_SETS = {
    evaluation_set.name: evaluation_set
    for evaluation_set in (
        EvaluationSet(
            name="easy-64",
            size=EASY_SIZE,
            seeds=PUBLISHED_SEEDS,
            max_turns=20,
            purpose="VisGym's seeds 0..63 of maze_2d/easy: the headline",
        ),
        EvaluationSet(
            name="hard-64",
            size=HARD_SIZE,
            seeds=PUBLISHED_SEEDS,
            max_turns=30,
            purpose="VisGym's seeds 0..63 of maze_2d/hard",
        ),
        EvaluationSet(
            name="easy-512",
            size=EASY_SIZE,
            seeds=_held_out(512),
            max_turns=29,
            purpose="held-out easy mazes, enough for a claim above 95 %",
        ),
        EvaluationSet(
            name="hard-256",
            size=HARD_SIZE,
            seeds=_held_out(256),
            max_turns=37,
            purpose="held-out hard mazes: does it carry over to the next size",
        ),
        EvaluationSet(
            name="large-128",
            size=15,
            seeds=_held_out(128),
            max_turns=53,
            purpose="15x15 mazes, beyond anything in VisGym's training",
        ),
    )
}


@functools.cache
def mazes_never_trained_on(size: int) -> tuple[Maze, ...]:
    """Every maze of that size in any evaluation set: what `training_mazes` must leave out."""
    return tuple(maze for one in EVALUATION_SETS.values() if one.size == size for maze in one.mazes)
