"""Our profiles against SkyRL's own parser and validation, and the traps that these let through."""

import math
from pathlib import Path

import pytest
from skyrl.train.config import SkyRLTrainConfig

from training.config import JobConfig, load_config
from training.faults import ConfigError
from training.skyrl_config import VISION_TOKENS, RunPaths, skyrl_config


def translated(config: JobConfig, *, evaluate_first: bool = True) -> SkyRLTrainConfig:
    return skyrl_config(
        config,
        model="a-model",
        paths=RunPaths(Path("/shared/runs/a-run")),
        allowed_tokens=None if config.trainer.model else [1, 2],
        evaluate_first=evaluate_first,
    )


@pytest.mark.parametrize("profile", ["walkthrough", "gpu-1", "rehearsal", "smoke"])
def test_skyrl_accepts_every_profile(profile: str) -> None:
    assert translated(load_config(profile)).trainer.strategy == "fsdp"


@pytest.mark.parametrize(
    ("nodes", "gpus_per_node", "mazes_per_step"), [(1, 1, 48), (1, 2, 48), (3, 2, 48), (2, 8, 48), (5, 2, 50)]
)
def test_batches_are_even_on_any_cluster_the_config_lets_through(
    nodes: int, gpus_per_node: int, mazes_per_step: int
) -> None:
    overrides = {
        "trainer.nodes": nodes,
        "trainer.gpus_per_node": gpus_per_node,
        "trainer.grpo.mazes_per_step": mazes_per_step,
    }
    try:
        config = load_config("walkthrough", overrides=overrides)
    except ConfigError as refusal:
        advised = int(str(refusal).rsplit(maxsplit=1)[-1].rstrip("."))
        config = load_config("walkthrough", overrides={**overrides, "trainer.grpo.mazes_per_step": advised})
    skyrl = translated(config)
    samples, gpus = skyrl.generator.n_samples_per_prompt, nodes * gpus_per_node
    # SkyRL cuts the mazes of a step to a multiple of this, and then asserts that nothing was cut.
    assert skyrl.trainer.train_batch_size % (gpus // math.gcd(gpus, samples)) == 0
    minibatch = skyrl.trainer.policy_mini_batch_size * samples / gpus
    assert minibatch % skyrl.trainer.micro_train_batch_size_per_gpu == 0


@pytest.mark.parametrize("graphs", [True, False])
def test_vllm_runs_eagerly_only_when_asked_although_an_adapter_is_trained(graphs: bool) -> None:
    """SkyRL overrules its own enforce_eager for adapters, but passes vLLM's arguments on."""
    config = load_config("gpu-1", overrides={"trainer.engine.cuda_graphs": graphs})
    assert translated(config).generator.inference_engine.engine_init_kwargs["enforce_eager"] is not graphs


def test_one_gpu_runs_the_walkthroughs_algorithm() -> None:
    """What differs is listed in docs/performance.md; the algorithm and its checks are not in that list."""
    one, six = (translated(load_config(profile)) for profile in ("gpu-1", "walkthrough"))
    assert (one.trainer.strategy, one.trainer.placement.colocate_all) == ("fsdp", True)
    for name in ("advantage_estimator", "use_kl_loss", "eps_clip_low", "eps_clip_high", "loss_reduction"):
        assert getattr(one.trainer.algorithm, name) == getattr(six.trainer.algorithm, name)


@pytest.mark.parametrize("profile", ["gpu-1", "rehearsal", "smoke"])
def test_the_tiny_model_asks_for_no_more_disk_than_its_checkpoints_need(profile: str) -> None:
    """The default is the 8B model's 36 GiB a checkpoint: a laptop would be refused."""
    assert load_config(profile).trainer.checkpoint_gib < 1


def test_the_vision_tower_gets_no_adapter() -> None:
    """SkyRL matches the whole module name, so the plain word would exclude nothing."""
    import re

    pattern = translated(load_config("walkthrough")).trainer.policy.model.lora.exclude_modules
    assert re.fullmatch(pattern, "base_model.model.model.visual.blocks.0.attn.qkv")
    assert not re.fullmatch(pattern, "base_model.model.model.language_model.layers.0.mlp.up_proj")


def test_vision_tokens_cannot_be_sampled_in_training_or_evaluation() -> None:
    generator = translated(load_config("walkthrough")).generator
    for params in (generator.sampling_params, generator.eval_sampling_params):
        assert params.additional_kwargs == {"bad_words": list(VISION_TOKENS)}


def test_the_run_is_one_epoch_that_resumes_and_keeps_two_checkpoints() -> None:
    trainer = translated(load_config("walkthrough")).trainer
    assert (trainer.epochs, trainer.resume_mode, trainer.max_ckpts_to_keep) == (1, "latest", 2)


def test_reference_placement_follows_the_policys() -> None:
    placement = translated(load_config("walkthrough")).trainer.placement
    assert (placement.ref_num_nodes, placement.ref_num_gpus_per_node) == (3, 2)


def test_everything_a_restart_needs_lies_in_the_runs_shared_folder() -> None:
    trainer = translated(load_config("walkthrough")).trainer
    for path in (trainer.ckpt_path, trainer.export_path, trainer.policy.model.lora.lora_sync_path):
        assert path.startswith("/shared/runs/a-run/")


def test_the_starting_point_is_graded_only_when_asked() -> None:
    config = load_config("walkthrough")
    assert translated(config).trainer.eval_before_train
    assert not translated(config, evaluate_first=False).trainer.eval_before_train
