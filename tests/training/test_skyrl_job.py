"""What a job does around SkyRL's loop: one attempt at a time, rows for its steps, no retry inside Ray."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from training.config import load_config
from training.evaluation import POLICIES, PolicyName, play
from training.maze import maze_for
from training.results import Progress, evaluation_of
from training.run_folder import RunFolder
from training.skyrl_config import RunPaths
from training.skyrl_job import RunInUse, _only_attempt, lacks_evaluation, train_task, write_rows


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


@pytest.mark.parametrize(
    ("step", "graded", "lacks"),
    [
        pytest.param(0, (), True, id="a-new-run"),
        pytest.param(4, (0,), True, id="ended-between-save-and-evaluation"),
        pytest.param(4, (0, 4), False, id="graded-before-it-ended"),
        pytest.param(5, (0, 4), False, id="no-evaluation-due"),
        pytest.param(7, (0, 4), True, id="the-last-step"),
    ],
)
def test_a_resumed_run_makes_up_for_an_evaluation_that_was_due(
    step: int, graded: tuple[int, ...], lacks: bool
) -> None:
    config = load_config("smoke", overrides={"trainer.grpo.steps": 7, "evaluation.every_steps": 4})
    episodes = play([maze_for(size=5, seed=0)], policy=POLICIES[PolicyName.ORACLE], max_turns=8, seed=0)
    evaluations = tuple(
        evaluation_of(episodes, step=s, max_turns=8, temperature=1.0, weights=config.reward) for s in graded
    )
    assert lacks_evaluation(Progress(step=step, evaluations=evaluations, steps=()), config) is lacks


def test_ray_never_starts_the_training_task_again_inside_the_job() -> None:
    """Its second start would wait for GPUs that the first one's placement group never gives back."""
    assert train_task._default_options["max_retries"] == 0
