"""From our job config to SkyRL's: every override this project depends on, with the reason where it is not
plain.

SkyRL's own parser refuses unknown keys, and its `validate_cfg` checks the result before anything starts.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyrl.train.config import SkyRLTrainConfig, get_config_as_yaml_str
from skyrl.train.utils import validate_cfg

from training.config import EngineConfig, Hardware, JobConfig, TrainerConfig
from training.environment import ENVIRONMENT_ID

VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
"""A sampled one of these stands for a picture that does not exist, and the next forward pass fails."""
# The generator needs the prompt's text alone to fit; frames come with the environment.
MAX_PROMPT_TOKENS = 1024


@dataclass(frozen=True)
class RunPaths:
    """Where SkyRL reads and writes; all on the file system that every node sees."""

    root: Path

    @property
    def training_rows(self) -> Path:
        """One row a training maze."""
        return self.root / "data" / "train.parquet"

    @property
    def evaluation_rows(self) -> Path:
        """One row an evaluation maze."""
        return self.root / "data" / "evaluation.parquet"

    @property
    def checkpoints(self) -> Path:
        """SkyRL's `global_step_N` folders."""
        return self.root / "checkpoints"

    @property
    def exports(self) -> Path:
        """Adapters in Hugging Face's format, and SkyRL's evaluation dumps."""
        return self.root / "exports"

    @property
    def adapter_sync(self) -> Path:
        """Rank 0 writes the adapter here after each step, every engine reads it."""
        return self.root / "adapter-sync"

    @property
    def progress(self) -> Path:
        """What has been measured so far."""
        return self.root / "progress.json"


def skyrl_config(
    config: JobConfig, *, model: str, paths: RunPaths, allowed_tokens: list[int] | None, evaluate_first: bool
) -> SkyRLTrainConfig:
    """SkyRL's config for this run, accepted by SkyRL's own validation.

    `allowed_tokens`: sample nothing else (the tiny model); None forbids the vision tokens instead.
    `evaluate_first`: grade the starting point; a resumed run mostly has that from an earlier attempt.
    """
    overrides = {
        **_model(config.trainer, model, paths),
        **_placement(config.trainer),
        **_algorithm(config),
        **_rollouts(config, allowed_tokens),
        **_run(config, paths, evaluate_first=evaluate_first),
        **(_on_cpu() if config.trainer.hardware is Hardware.CPU else _on_gpu(config.trainer.engine)),
    }
    skyrl = SkyRLTrainConfig.from_cli_overrides([f"{key}={_text(value)}" for key, value in overrides.items()])
    validate_cfg(skyrl)
    return skyrl


def as_text(skyrl: SkyRLTrainConfig) -> str:
    """SkyRL's config as YAML."""
    return str(get_config_as_yaml_str(skyrl))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _model(trainer: TrainerConfig, model: str, paths: RunPaths) -> dict[str, Any]:
    return {
        "trainer.strategy": "fsdp",
        "trainer.policy.model.path": model,
        "trainer.policy.model.lora.rank": trainer.lora.rank,
        "trainer.policy.model.lora.alpha": trainer.lora.alpha,
        # A full-match pattern: plain `visual` would exclude nothing.
        "trainer.policy.model.lora.exclude_modules": ".*visual.*",
        "trainer.policy.model.lora.lora_sync_path": str(paths.adapter_sync),
        # Sequence packing cannot place the pictures; SkyRL fails on it in the first forward pass only.
        "trainer.remove_microbatch_padding": False,
    }


def _placement(trainer: TrainerConfig) -> dict[str, Any]:
    return {
        "trainer.placement.colocate_all": True,
        "trainer.placement.policy_num_nodes": trainer.nodes,
        "trainer.placement.policy_num_gpus_per_node": trainer.gpus_per_node,
        # Defaults to one GPU and passes validation, then fails when the models are built.
        "trainer.placement.ref_num_nodes": trainer.nodes,
        "trainer.placement.ref_num_gpus_per_node": trainer.gpus_per_node,
        "generator.inference_engine.num_engines": trainer.gpus,
        "generator.inference_engine.tensor_parallel_size": 1,
    }


def _algorithm(config: JobConfig) -> dict[str, Any]:
    grpo = config.trainer.grpo
    return {
        "trainer.algorithm.advantage_estimator": "grpo",
        # With a 0.8 task reward the SFT recipe needs no anchor, and no reference model is built.
        "trainer.algorithm.use_kl_loss": False,
        "trainer.algorithm.eps_clip_low": grpo.clip,
        "trainer.algorithm.eps_clip_high": grpo.clip,
        "trainer.policy.optimizer_config.lr": grpo.learning_rate,
        "trainer.policy.optimizer_config.scheduler": grpo.learning_rate_schedule,
        "trainer.policy.optimizer_config.weight_decay": 0.0,
        "trainer.train_batch_size": grpo.mazes_per_step,
        "trainer.policy_mini_batch_size": grpo.mazes_per_step // grpo.minibatches,
        "trainer.micro_train_batch_size_per_gpu": grpo.samples_per_pass,
        "trainer.micro_forward_batch_size_per_gpu": grpo.samples_per_pass,
        # One epoch as long as the run: see training.dataset.
        "trainer.epochs": 1,
    }


def _rollouts(config: JobConfig, allowed_tokens: list[int] | None) -> dict[str, Any]:
    trainer, grpo = config.trainer, config.trainer.grpo
    rule = (
        {"bad_words": list(VISION_TOKENS)}
        if allowed_tokens is None
        else {"allowed_token_ids": allowed_tokens}
    )
    return {
        "environment.env_class": ENVIRONMENT_ID,
        "generator.vision_language_generator": True,
        "generator.batched": False,
        "generator.n_samples_per_prompt": grpo.samples_per_maze,
        "generator.max_turns": config.maze.max_turns,
        "generator.max_input_length": trainer.max_input_tokens,
        "generator.sampling_params.temperature": grpo.temperature,
        "generator.sampling_params.max_generate_length": trainer.max_answer_tokens,
        "generator.sampling_params.logprobs": 0,
        "generator.sampling_params.additional_kwargs": rule,
        "generator.eval_sampling_params.temperature": config.evaluation.temperature,
        "generator.eval_sampling_params.max_generate_length": trainer.max_answer_tokens,
        "generator.eval_sampling_params.additional_kwargs": rule,
        "trainer.max_prompt_length": min(MAX_PROMPT_TOKENS, trainer.max_input_tokens),
    }


def _run(config: JobConfig, paths: RunPaths, *, evaluate_first: bool) -> dict[str, Any]:
    return {
        "trainer.seed": config.seed,
        "trainer.logger": "console",
        "trainer.resume_mode": "latest",
        "trainer.ckpt_interval": config.trainer.checkpoint_every,
        "trainer.max_ckpts_to_keep": config.trainer.checkpoints_kept,
        "trainer.ckpt_path": str(paths.checkpoints),
        "trainer.export_path": str(paths.exports),
        "trainer.log_path": str(paths.root / "logs"),
        "trainer.eval_interval": config.evaluation.every_steps,
        "trainer.eval_batch_size": config.evaluation.mazes,
        "trainer.eval_before_train": evaluate_first,
        "trainer.print_example_interval": -1,
        "data.train_data": [str(paths.training_rows)],
        "data.val_data": [str(paths.evaluation_rows)],
        # Rows are read once, and within the one epoch the order survives a resume without helpers, too.
        "data.dataloader.num_workers": 0,
        "data.dataloader.persistent_workers": False,
    }


def _on_gpu(engine: EngineConfig) -> dict[str, Any]:
    return {
        "trainer.flash_attn": engine.flash_attention,
        "trainer.gradient_checkpointing": engine.gradient_checkpointing,
        "generator.inference_engine.gpu_memory_utilization": engine.gpu_memory_share,
        # SkyRL sets its own enforce_eager back to false when an adapter is trained; vLLM's argument stays.
        "generator.inference_engine.engine_init_kwargs.enforce_eager": not engine.cuda_graphs,
        # Mazes are pictures: without this vLLM reserves memory for films at its start.
        "generator.inference_engine.engine_init_kwargs.limit_mm_per_prompt": {"video": 0},
    }


def _on_cpu() -> dict[str, Any]:
    return {
        "trainer.flash_attn": False,
        "trainer.gradient_checkpointing": False,
        "trainer.use_expandable_segments": False,
        "trainer.enable_ray_gpu_monitor": False,
        "trainer.policy.fsdp_config.mixed_precision.param_dtype": "fp32",
        "generator.inference_engine.enable_ray_prometheus_stats": False,
        # Environments answer in less time than a thread takes to be asked.
        "environment.skyrl_gym.max_env_workers": 0,
    }


def prepare_environment(trainer: TrainerConfig) -> None:
    """Variables that SkyRL reads when it connects to Ray, and hands on to its workers."""
    # Our package is found by path, in the image and here; SkyRL hands PYTHONPATH on only when asked.
    if os.environ.get("PYTHONPATH"):
        os.environ["SKYRL_PYTHONPATH_EXPORT"] = "1"
    if trainer.hardware is Hardware.CPU:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ.setdefault("SKYRL_WORKER_NCCL_TIMEOUT_IN_S", "120")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
