"""What our callbacks make of SkyRL's events."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from training.callbacks import RecordProgress, StopWhenDiverged, TrainingDivergedError, progress_at
from training.config import load_config
from training.environment import finished_episodes
from training.evaluation import POLICIES, PolicyName, play
from training.maze import published_mazes
from training.results import Progress

CONFIG = load_config("rehearsal")
FRESH = Progress(step=0, evaluations=(), steps=())
METRICS = {
    "environment/solved": 0.25,
    "reward/avg_raw_reward": 0.4,
    "environment/turns": 17.0,
    "policy/policy_loss": 0.1,
    "policy/policy_entropy": 0.3,
    "policy/loss_metrics/clip_ratio": 0.01,
    "policy/grad_norm": 0.5,
    "policy/rollout_train_logprobs_abs_diff_mean": 0.0007,
}
TRAINER = SimpleNamespace(
    cfg=SimpleNamespace(generator=SimpleNamespace(n_samples_per_prompt=2)),
    all_metrics=METRICS,
    all_timings={"generate": 2.0, "fwd_logprobs_values_reward": 1.0, "policy_train": 3.0},
)


def event(step: int, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(global_step=step, **fields)


def train_step(recorder: RecordProgress, step: int) -> None:
    """One of two groups has advantages. The run may be cut right after SkyRL has saved it, before its log."""
    advantages = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    recorder.on_step_end(TRAINER, event(step, batch={"advantages": advantages}), None)


def evaluate(recorder: RecordProgress, step: int) -> None:
    recorder.on_eval_start(TRAINER, event(step), None)
    finished_episodes.extend(
        play(published_mazes(9), policy=POLICIES[PolicyName.ORACLE], max_turns=20, seed=0)
    )
    recorder.on_eval_end(TRAINER, event(step), None)
    recorder.on_log(TRAINER, event(step, logs={}), None)


@pytest.mark.parametrize("name", StopWhenDiverged.WATCHED)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_number_ends_the_run(name: str, value: float) -> None:
    metrics = {"policy_loss": 0.1, "final_loss": 0.1, "grad_norm": 0.2}
    StopWhenDiverged().on_step_end(TRAINER, event(7, metrics=metrics), None)
    with pytest.raises(TrainingDivergedError, match=f"step 7: {name} is {value}"):
        StopWhenDiverged().on_step_end(TRAINER, event(7, metrics={**metrics, name: value}), None)


def test_progress_on_disk_has_every_step_and_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    recorder = RecordProgress(path=path, config=CONFIG, progress=FRESH)
    finished_episodes.extend(
        play(published_mazes(9)[:3], policy=POLICIES[PolicyName.RANDOM], max_turns=20, seed=0)
    )
    evaluate(recorder, 0)
    train_step(recorder, 1)
    progress = Progress.model_validate_json(path.read_text())
    [before], [step] = progress.evaluations, progress.steps
    assert (before.step, before.solved, before.total) == (0, 64, 64)
    assert (step.step, step.solved_share, step.learn_seconds) == (1, 0.25, 4.0)
    assert step.logprob_gap == 0.0007
    assert step.groups_without_signal == 0.5


def test_a_resume_drops_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    recorder = RecordProgress(path=path, config=CONFIG, progress=FRESH)
    evaluate(recorder, 0)
    for step in (1, 2, 3):
        train_step(recorder, step)
    evaluate(recorder, 3)
    resumed = progress_at(path, step=2, fresh=FRESH)
    assert [step.step for step in resumed.steps] == [1, 2]
    assert [evaluation.step for evaluation in resumed.evaluations] == [0]
    assert (resumed.step, resumed.resumed_from) == (2, (2,))


def test_a_run_without_a_checkpoint_starts_with_a_clean_sheet(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    train_step(RecordProgress(path=path, config=CONFIG, progress=FRESH), 1)
    assert progress_at(path, step=0, fresh=FRESH) == FRESH
