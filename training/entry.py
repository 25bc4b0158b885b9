"""SkyRL's experiment for the mazes: its trainer and generator unchanged, with our callbacks and dataset.

The training loop is a Ray task of its own, as in SkyRL's entry, but with `max_retries=0`: after the loss of
its node Ray would start it again inside the same job, where the placement group of the dead attempt never
frees its GPUs. Recovery is a new job attempt, which resumes.
"""

from collections.abc import Sequence
from typing import Any

from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name
from skyrl.train.dataset import PromptDataset
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.generators.base import GeneratorInterface
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils.callbacks import TrainingCallback

from training.environment import register_environment
from training.rollouts import RenderOnceGenerator


class MazeExperiment(BasePPOExp):  # type: ignore[misc]  # skyrl has no types
    """SkyRL's experiment with the maze environment, and callbacks given to the trainer."""

    def __init__(self, cfg: Any, *, callbacks: Sequence[TrainingCallback], render_once: bool = False) -> None:
        register_environment()
        self._render_once = render_once
        self._callbacks = list(callbacks)
        super().__init__(cfg)

    def get_train_dataset(self) -> PromptDataset:
        """One row a maze; read in this process, since eight helpers take longer to start than to work."""
        return self._dataset(self.cfg.data.train_data)

    def get_eval_dataset(self) -> PromptDataset:
        """The fixed mazes."""
        return self._dataset(self.cfg.data.val_data)

    def _dataset(self, files: list[str]) -> PromptDataset:
        return PromptDataset(
            datasets=files,
            tokenizer=self.tokenizer,
            max_prompt_length=self.cfg.trainer.max_prompt_length,
            num_workers=1,
        )

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> GeneratorInterface:
        """SkyRL's generator, or ours that renders each message once."""
        if not self._render_once:
            return super().get_generator(cfg, tokenizer, inference_engine_client)
        return RenderOnceGenerator(
            generator_cfg=cfg.generator,
            skyrl_gym_cfg=cfg.environment.skyrl_gym,
            inference_engine_client=inference_engine_client,
            tokenizer=tokenizer,
            policy_model_name=resolve_policy_model_name(cfg),
        )

    def get_trainer(self, **parts: Any) -> RayPPOTrainer:
        """SkyRL's trainer with our callbacks."""
        return RayPPOTrainer(**parts, callbacks=self._callbacks)
