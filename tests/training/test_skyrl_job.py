"""What a job does around SkyRL's loop: one attempt at a time, rows for its steps, no retry inside Ray."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from training.config import load_config
from training.run_folder import RunFolder
from training.skyrl_config import RunPaths
from training.skyrl_job import RunInUse, _only_attempt, train_task, write_rows


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(shared=tmp_path, run_id="a-run")
    folder.claim(load_config("smoke"))
    return folder


def test_a_second_attempt_of_a_running_run_is_refused_and_a_later_one_is_not(folder: RunFolder) -> None:
    refusal = pytest.raises(RunInUse, match=r"run id a-run: another attempt holds .*attempt\.lock")
    with _only_attempt(folder), refusal, _only_attempt(folder):
        pass
    with _only_attempt(folder):
        pass


def test_the_one_epoch_is_as_long_as_the_run(tmp_path: Path) -> None:
    """A row less and SkyRL would stop a step early; a second epoch it could not resume into."""
    config = load_config("smoke", overrides={"trainer.grpo.steps": 5})
    paths = RunPaths(tmp_path)
    write_rows(config, paths)
    assert pq.read_table(paths.training_rows).num_rows == 5 * config.trainer.grpo.mazes_per_step
    assert pq.read_table(paths.evaluation_rows).num_rows == config.evaluation.mazes


def test_ray_never_starts_the_training_task_again_inside_the_job() -> None:
    """Its second start would wait for GPUs that the first one's placement group never gives back."""
    assert train_task._default_options["max_retries"] == 0
