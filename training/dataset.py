"""The rows SkyRL trains and evaluates on: one maze each, by size and seed, as parquet files.

Every row has its own seed. Without one, each of the n samples of a GRPO group would draw its own maze, and
the group's mean would be a baseline for nothing. Training rows are as many as the run's steps need, so the
run is ONE epoch: SkyRL cannot resume from a checkpoint at an epoch's end (the restored loader yields
nothing), and its order of rows after a resume holds only within an epoch.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from training.environment import ENVIRONMENT_ID
from training.maze import Maze, prompt_for, training_mazes
from training.rewards import RewardWeights


def write_training_rows(
    path: Path, *, rows: int, size: int, seed: int, weights: RewardWeights, exclude: Iterable[Maze]
) -> None:
    """Write `rows` mazes that depend on `seed` alone and are none of `exclude`."""
    mazes = training_mazes(size=size, seed=seed, exclude=tuple(exclude))
    _write(path, itertools.islice(mazes, rows), source="train", weights=weights)


def write_evaluation_rows(path: Path, *, mazes: Iterable[Maze], source: str, weights: RewardWeights) -> None:
    """Write the fixed mazes; `source` names the set in SkyRL's metrics and dumps."""
    _write(path, mazes, source=source, weights=weights)


def _write(path: Path, mazes: Iterable[Maze], *, source: str, weights: RewardWeights) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([_row(maze, source, weights) for maze in mazes]), path)


def _row(maze: Maze, source: str, weights: RewardWeights) -> dict[str, Any]:
    return {
        # SkyRL measures the prompt's length by this text; the environment sends it with the first frame.
        "prompt": [{"role": "user", "content": prompt_for(maze.size)}],
        "env_class": ENVIRONMENT_ID,
        "data_source": source,
        "size": maze.size,
        "seed": maze.seed,
        "task_reward": weights.task,
        "format_reward": weights.format,
    }
