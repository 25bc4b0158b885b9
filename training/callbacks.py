"""What our run adds to SkyRL's training loop: progress on disk, checkpoints that can be trusted, a loud end.

An exception in a callback ends the run, which is what `StopWhenDiverged` relies on: SkyRL itself only skips
an update whose gradient is not finite, and trains on.
"""

import math
from pathlib import Path
from typing import Any

import torch
from skyrl.train.utils.callbacks import TrainingCallback

from training.checkpoints import mark_complete, write_durably
from training.config import JobConfig
from training.environment import finished_episodes
from training.results import Evaluation, Progress, StepMetrics, evaluation_of


class TrainingDivergedError(Exception):
    """A loss or gradient is not a number any more; going on would only spend GPU hours."""


class MarkCheckpoints(TrainingCallback):  # type: ignore[misc]  # skyrl has no types
    """Mark each checkpoint as complete once SkyRL has written all of it."""

    def __init__(self, *, world_size: int) -> None:
        self._world_size = world_size

    def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """The folder's last file."""
        mark_complete(Path(callback_input.ckpt_path), world_size=self._world_size)


class StopWhenDiverged(TrainingCallback):  # type: ignore[misc]  # skyrl has no types
    """End the run when an update's metrics are not finite."""

    WATCHED = ("policy_loss", "final_loss", "grad_norm")

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Look at the update before it is saved. Raises TrainingDivergedError."""
        for name in self.WATCHED:
            value = callback_input.metrics.get(name)
            if value is not None and not math.isfinite(value):
                raise TrainingDivergedError(
                    f"step {callback_input.global_step}: {name} is {value}. The newest checkpoint is older "
                    "than that: lower trainer.learning_rate and start the same run id again"
                )


class RecordProgress(TrainingCallback):  # type: ignore[misc]  # skyrl has no types
    """Keep `progress.json` up to date: every step's metrics and every evaluation, episode by episode.

    The file is also the sign of life: it changes at least once a step.
    """

    def __init__(self, *, path: Path, config: JobConfig, progress: Progress) -> None:
        self._path = path
        self._config = config
        self._progress = progress
        self._evaluation: Evaluation | None = None

    def on_eval_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Forget the episodes of the rollouts."""
        finished_episodes.clear()

    def on_eval_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Grade what was just played; SkyRL's own numbers do not tell mazes apart."""
        self._evaluation = evaluation_of(
            list(finished_episodes),
            step=callback_input.global_step,
            max_turns=self._config.maze.max_turns,
            temperature=self._config.evaluation.temperature,
            weights=self._config.reward,
        )

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Write the step down before SkyRL saves it: else a run cut in between lacks the step for ever.

        SkyRL's own log of the step comes only after the checkpoint, the adapter sync and the evaluation.
        """
        logs = trainer.all_metrics | {f"timing/{name}": value for name, value in trainer.all_timings.items()}
        advantages = callback_input.batch["advantages"]
        groups = advantages.reshape(-1, trainer.cfg.generator.n_samples_per_prompt * advantages.shape[-1])
        step = self._step_metrics(callback_input.global_step, logs, groups)
        self._write({"step": step.step, "steps": (*self._progress.steps, step)})

    def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Write down the evaluation, if there was one."""
        if self._evaluation is not None:
            self._write({"evaluations": (*self._progress.evaluations, self._evaluation)})
            self._evaluation = None

    def _write(self, news: dict[str, Any]) -> None:
        self._progress = self._progress.model_copy(update=news)
        write_durably(self._path, self._progress.model_dump_json())

    def _step_metrics(
        self, step: int, logs: dict[str, Any], advantages_of_groups: torch.Tensor
    ) -> StepMetrics:
        """Groups whose samples all earned the same have advantages of zero and teach nothing."""
        without_signal = torch.all(advantages_of_groups == 0, dim=1)
        return StepMetrics(
            step=step,
            solved_share=logs["environment/solved"],
            mean_reward=logs["reward/avg_raw_reward"],
            mean_turns=logs["environment/turns"],
            groups_without_signal=float(without_signal.float().mean()),
            loss=logs["policy/policy_loss"],
            entropy=logs["policy/policy_entropy"],
            clip_share=logs["policy/loss_metrics/clip_ratio"],
            gradient_norm=logs["policy/grad_norm"],
            logprob_gap=logs["policy/rollout_train_logprobs_abs_diff_mean"],
            rollout_seconds=logs["timing/generate"],
            learn_seconds=logs["timing/fwd_logprobs_values_reward"] + logs["timing/policy_train"],
        )


def progress_at(path: Path, *, step: int, fresh: Progress) -> Progress:
    """The progress that belongs to a checkpoint: what came after it was lost with the attempt."""
    if step == 0 or not path.exists():
        return fresh
    saved = Progress.model_validate_json(path.read_text())
    return saved.model_copy(
        update={
            "step": step,
            "steps": tuple(metrics for metrics in saved.steps if metrics.step <= step),
            "evaluations": tuple(e for e in saved.evaluations if e.step <= step),
            "resumed_from": (*saved.resumed_from, step),
        }
    )
