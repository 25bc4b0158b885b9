"""Rows for SkyRL: one maze each, none of the evaluation's, the same in every process."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from training.dataset import write_evaluation_rows, write_training_rows
from training.maze import TRAINING_SEEDS, maze_for, published_mazes
from training.rewards import RewardWeights

ROWS = 60


def training_file(folder: Path, *, seed: int = 0) -> Path:
    path = folder / "train.parquet"
    write_training_rows(
        path, rows=ROWS, size=9, seed=seed, weights=RewardWeights(), exclude=published_mazes(9)
    )
    return path


def test_every_training_row_has_its_own_seed_and_no_evaluation_maze(tmp_path: Path) -> None:
    """Without a seed in the row each sample of a group would draw its own maze."""
    rows = pq.read_table(training_file(tmp_path)).to_pylist()
    seeds = {row["seed"] for row in rows}
    assert len(seeds) == len(rows) == ROWS
    assert min(seeds) >= TRAINING_SEEDS.start
    evaluated = {maze.fingerprint for maze in published_mazes(9)}
    assert not evaluated & {maze_for(size=9, seed=seed).fingerprint for seed in seeds}


def test_evaluation_rows_are_the_fixed_mazes_in_order(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.parquet"
    write_evaluation_rows(path, mazes=published_mazes(9), source="fixed", weights=RewardWeights(task=0.9))
    rows = pq.read_table(path).to_pylist()
    assert [row["seed"] for row in rows] == list(range(64))
    assert {(row["data_source"], row["task_reward"]) for row in rows} == {("fixed", 0.9)}


def test_rows_depend_on_the_runs_seed_alone_and_not_on_the_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from training.dataset import write_training_rows\n"
        "from training.maze import published_mazes; from training.rewards import RewardWeights\n"
        f"write_training_rows(Path(sys.argv[1]), rows={ROWS}, size=9, seed=0, weights=RewardWeights(), "
        "exclude=published_mazes(9))"
    )
    elsewhere = tmp_path / "elsewhere.parquet"
    subprocess.run(
        [sys.executable, "-c", code, str(elsewhere)],
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
    )
    here = training_file(tmp_path)
    assert hashlib.sha256(here.read_bytes()).digest() == hashlib.sha256(elsewhere.read_bytes()).digest()
    assert pq.read_table(training_file(tmp_path, seed=1)) != pq.read_table(elsewhere)
