"""The experiment on a laptop: `MazeExperiment` with CPU rollout engines and CPU policy workers.

Placement groups, ranks, the generator, advantages, the training loop, evaluation, checkpoints and resume are
those of the deployed job. The deployed entry does not import this package.
"""

from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from skyrl.train.generators import skyrl_vlm_generator
from skyrl.train.utils.callbacks import TrainingCallback

from training.entry import MazeExperiment
from training.local import cuda_stand_ins
from training.local.inference_client import LocalInferenceClient, decode_frames
from training.local.rollout_engine import Completion, Request, RolloutEngine, Sampling
from training.local.threads import threads_each

ENGINE_GPU_SHARE = 0.5
"""Of the GPU that an engine shares with a policy rank, which SkyRL gives 0.2."""


class RolloutActor:
    """A rollout engine in a process of its own."""

    def __init__(self, **settings: Any) -> None:
        self._engine = RolloutEngine(**settings)

    def answer(
        self, requests: Sequence[Request], sampling: Sampling, finished: Sequence[str]
    ) -> list[Completion]:
        """Forget the sessions that have ended, then answer."""
        self._engine.finish(finished)
        return self._engine.generate(requests, sampling)

    def load_adapter(self, folder: str) -> None:
        """Use the adapter of the sync folder from now on."""
        self._engine.load_adapter(folder)


class LocalExperiment(MazeExperiment):
    """Engines and policy ranks share the GPUs that the local Ray only claims to have."""

    def __init__(self, cfg: Any, *, callbacks: Sequence[TrainingCallback], timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        super().__init__(cfg, callbacks=callbacks)

    def get_inference_client(self) -> LocalInferenceClient:
        """An engine in each bundle of the shared placement group."""
        group = self.colocate_pg
        threads = threads_each(len(group.reordered_bundle_indices))
        engines = [
            ray.remote(RolloutActor)
            .options(
                num_gpus=ENGINE_GPU_SHARE,
                num_cpus=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group.pg, placement_group_bundle_index=bundle
                ),
            )
            .remote(
                model_path=self.cfg.trainer.policy.model.path,
                sessions=self._sessions_at_once,
                max_tokens=self.cfg.generator.max_input_length
                + self.cfg.generator.sampling_params.max_generate_length,
                seed=self.cfg.trainer.seed,
                threads=threads,
            )
            for bundle in group.reordered_bundle_indices
        ]
        return LocalInferenceClient(
            model_path=self.cfg.trainer.policy.model.path,
            engines=engines,
            timeout_seconds=self._timeout_seconds,
        )

    @property
    def _sessions_at_once(self) -> int:
        """A session goes to an engine by its hash, so in the worst case all go to one."""
        training = self.cfg.trainer.train_batch_size * self.cfg.generator.n_samples_per_prompt
        evaluation = self.cfg.trainer.eval_batch_size * self.cfg.generator.eval_n_samples_per_prompt
        return int(max(training, evaluation))

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: LocalInferenceClient) -> Any:
        """SkyRL's vision-language generator; only the decoding of serialized frames, vLLM's, is replaced."""
        skyrl_vlm_generator.decode_mm_kwargs = decode_frames
        return super().get_generator(cfg, tokenizer, inference_engine_client)

    def _setup_trainer(self) -> Any:
        cuda_stand_ins.pretend_flash_attention()
        from skyrl.backends.skyrl_train.workers.fsdp import fsdp_worker  # noqa: PLC0415

        from training.local.policy_worker import CpuPolicyWorker  # noqa: PLC0415

        # SkyRL imports the name when it builds the models.
        fsdp_worker.PolicyWorker = CpuPolicyWorker
        return super()._setup_trainer()
