"""What a run is made of, as one frozen object read from `profiles/<name>.yaml` and checked before any work.

A refusal names the field, the value, the rule and the remedy. The resolved config is saved with every run.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from training.faults import ConfigError, Fault, faults_of
from training.maze import MIN_SIZE, Maze, maze_for, solvable_within
from training.rewards import RewardWeights
from training.sizing import QWEN3_VL_8B, Workload, sizing_faults

PROFILES = Path(__file__).parent / "profiles"


class Section(BaseModel):
    """A group of choices: unknown keys are refused, values are not coerced, nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class MazeConfig(Section):
    """The task."""

    size: int = Field(default=9, ge=MIN_SIZE, le=51)
    """Give an odd number of cells a side: 9 is VisGym's easy, 11 its hard."""
    max_turns: int = Field(default=20, ge=1)
    """Give the turns an episode may take; 20 solves all 64 easy mazes, 15 only 50 of them."""


class EvaluationConfig(Section):
    """How the policy is graded. The mazes are those of the seeds 0, 1, 2...; 64 is the published set."""

    mazes: int = Field(default=64, ge=1, le=64)
    """Give how many of the 64 fixed evaluation mazes are played."""
    temperature: float = Field(default=0.0, ge=0)
    """Give the sampling temperature; 0.0 answers greedily. It decides the baseline, so it is reported."""
    goal_solved_share: float = Field(default=0.0, ge=0, le=1)
    """Give the solved share that the run is meant to reach; it is compared with what max_turns allows."""
    every_steps: int = Field(default=10, ge=1)
    """Give the training steps between two evaluations."""


class Hardware(StrEnum):
    """What the ranks and engines run on."""

    GPU = "gpu"
    """CUDA devices, NCCL and vLLM: the deployed job."""
    CPU = "cpu"
    """`training.local` in the place of all three: a rehearsal with a tiny model."""


class WarmStartConfig(Section):
    """Imitation of the solver before GRPO: stands for the walkthrough's SFT checkpoint."""

    noise: float = Field(default=0.35, ge=0, lt=1)
    """Give the share of turns in which the demonstrating player moves at random; it decides the baseline."""
    vision_steps: int = Field(default=900, ge=1)
    """Give the optimizer steps in which the vision tower learns to read a maze."""
    vision_mazes: int = Field(default=48, ge=1)
    """Give the mazes of such a step; every cell of a maze is one frame."""
    dialogue_steps: int = Field(default=120, ge=1)
    """Give the optimizer steps in which the text layers learn the conversation."""
    dialogue_mazes: int = Field(default=24, ge=1)
    """Give the conversations of such a step."""


class LoraConfig(Section):
    """The adapter that is trained; the vision tower is left out, since vLLM would ignore its part."""

    rank: int = Field(default=32, ge=1)
    """Give the adapter's rank."""
    alpha: int = Field(default=32, ge=1)
    """Give the adapter's scale times its rank."""


class GrpoConfig(Section):
    """GRPO: groups of samples of the same maze, advantages normalised in the group, clipped objective."""

    steps: int = Field(default=160, ge=1)
    """Give the number of rollout-and-update steps."""
    mazes_per_step: int = Field(default=48, ge=1)
    """Give the groups of a step: one maze each."""
    samples_per_maze: int = Field(default=8, ge=2)
    """Give the episodes of a group; one alone has no advantage, so at least 2."""
    minibatches: int = Field(default=2, ge=1)
    """Give the optimizer steps each batch of rollouts is cut into."""
    samples_per_pass: int = Field(default=4, ge=1)
    """Give the episodes a GPU takes through the model at once."""
    learning_rate: float = Field(default=3e-5, gt=0)
    """Give AdamW's learning rate; for an adapter about ten times that of full fine-tuning."""
    learning_rate_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Give how the learning rate goes on: constant, or to zero at the last step as a line or a cosine."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """Give how far a token's probability ratio may move before its gradient stops."""
    temperature: float = Field(default=0.7, gt=0)
    """Give the sampling temperature of the rollouts."""


class EngineConfig(Section):
    """How vLLM and the policy share a GPU; without effect on cpu."""

    gpu_memory_share: float = Field(default=0.45, gt=0, lt=1)
    """Give the part of the GPU's memory that vLLM takes while it generates; the policy is elsewhere then."""
    cuda_graphs: bool = True
    """Say whether vLLM compiles the model and captures CUDA graphs: a slower start, faster tokens."""
    flash_attention: bool = True
    """Say whether the policy uses the package flash-attn, which the training image has."""
    gradient_checkpointing: bool = True
    """Say whether the policy recomputes activations instead of keeping them."""
    render_once: bool = True
    """Say whether each message is rendered once (training.rollouts), not all of them every turn."""


class TrainerConfig(Section):
    """SkyRL's trainer: where it runs, from which model, and what it does a step."""

    hardware: Hardware = Field(default=Hardware.GPU, strict=False)
    """Give gpu, or cpu for a rehearsal."""
    model: str | None = None
    """Give the checkpoint's folder or Hugging Face name; without one the warm start makes a tiny model."""
    warm_start: WarmStartConfig | None = None
    """Describe the warm start of the tiny model; leave it out when model is given."""
    nodes: int = Field(default=3, ge=1)
    """Give the nodes that train."""
    gpus_per_node: int = Field(default=2, ge=1)
    """Give the GPUs of a node; each holds a policy rank and a rollout engine."""
    gpu_memory_gib: float = Field(default=96.0, gt=0)
    """Give the memory of one GPU, as the table of instance types has it; 96 for ml.g7e."""
    max_input_tokens: int = Field(default=4096, ge=64)
    """Give the tokens a conversation may have before the last answer."""
    max_answer_tokens: int = Field(default=512, ge=1)
    """Give the tokens of one answer."""
    engine_silence_seconds: int = Field(default=300, ge=1)
    """Give how long a rollout engine on cpu may be silent before the run ends; vLLM has limits of its own."""
    checkpoint_every: int = Field(default=20, ge=1)
    """Give the steps between two checkpoints: the most that an interruption loses."""
    checkpoint_gib: float = Field(default=36.0, gt=0)
    """Give the size of a checkpoint, which holds the whole model in float32; room is checked first."""
    checkpoints_kept: int = Field(default=2, ge=2)
    """Give how many checkpoints stay; while one is written, the one before is all a run has."""
    engine: EngineConfig = EngineConfig()
    """Describe how vLLM and the policy share a GPU."""
    lora: LoraConfig = LoraConfig()
    """Describe the adapter."""
    grpo: GrpoConfig = GrpoConfig()
    """Describe the GRPO steps."""

    @property
    def gpus(self) -> int:
        """Ranks of the policy, and rollout engines."""
        return self.nodes * self.gpus_per_node


class JobConfig(Section):
    """One training run."""

    profile: str
    """Name the profile, as its file is named."""
    seed: int = Field(default=0, ge=0)
    """Give the seed of everything drawn by chance, except the fixed evaluation mazes."""
    maze: MazeConfig = MazeConfig()
    """Describe the task: size, max_turns."""
    reward: RewardWeights = RewardWeights()
    """Give the reward's weights: task, format."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Describe the evaluation."""
    trainer: TrainerConfig = TrainerConfig()
    """Describe the trainer."""

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if faults := tuple(_broken_rules(self)):
            raise ConfigError(faults)
        return self

    @property
    def is_deployed(self) -> bool:
        """Whether this is the real model on real GPUs, whose needs are known in advance."""
        return self.trainer.hardware is Hardware.GPU and self.trainer.model is not None

    @property
    def workload(self) -> Workload:
        """What the memory and the disks must hold; the deployed model is Qwen3-VL-8B."""
        trainer = self.trainer
        return Workload(
            model=QWEN3_VL_8B,
            maze_size=self.maze.size,
            max_turns=self.maze.max_turns,
            max_input_tokens=trainer.max_input_tokens,
            max_answer_tokens=trainer.max_answer_tokens,
            nodes=trainer.nodes,
            gpus_per_node=trainer.gpus_per_node,
            gpu_memory_gib=trainer.gpu_memory_gib,
            engine_memory_share=trainer.engine.gpu_memory_share,
            samples_per_pass=trainer.grpo.samples_per_pass,
            checkpoints_kept=trainer.checkpoints_kept,
        )

    def evaluation_mazes(self) -> tuple[Maze, ...]:
        """The fixed mazes the run is graded on, in the order of their seeds."""
        return tuple(maze_for(size=self.maze.size, seed=seed) for seed in range(self.evaluation.mazes))


def load_config(
    profile: str, *, overrides: Mapping[str, Any] | None = None, folder: Path = PROFILES
) -> JobConfig:
    """Read a profile; `overrides` maps dotted paths to values. Raises ConfigError with every fault found."""
    path = folder / f"{profile}.yaml"
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if profile not in names:
        fault = Fault(
            field="profile",
            value=profile,
            rule="is not among the profiles",
            remedy=f"Use one of: {', '.join(names)}.",
        )
        raise ConfigError([fault])
    document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    for dotted, value in (overrides or {}).items():
        _set(document, dotted, value)
    return parse_config({"profile": profile, **document})


def parse_config(document: Mapping[str, Any]) -> JobConfig:
    """Check a config. Raises ConfigError with every fault found."""
    try:
        return JobConfig.model_validate(document)
    except ValidationError as error:
        raise ConfigError(faults_of(error, JobConfig)) from error


def _set(document: dict[str, Any], dotted: str, value: object) -> None:
    *parents, key = dotted.split(".")
    section: Any = document
    for parent in parents:
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            fault = Fault(
                field=dotted, value=value, rule=f"{parent} is not a section", remedy="Check the dotted path."
            )
            raise ConfigError([fault])
    section[key] = value


def _broken_rules(config: JobConfig) -> Iterator[Fault]:
    if config.maze.size % 2 == 0:
        size = config.maze.size
        yield Fault(
            field="maze.size", value=size, rule="must be odd", remedy=f"Use {size - 1} or {size + 1}."
        )
        return
    yield from _goal_above_ceiling(config)
    if config.is_deployed:
        yield from sizing_faults(config.workload)
    yield from _model_and_warm_start(config)
    yield from _uneven_batches(config)


def _goal_above_ceiling(config: JobConfig) -> Iterator[Fault]:
    mazes = config.evaluation_mazes()
    solvable = solvable_within(mazes, max_turns=config.maze.max_turns)
    goal = config.evaluation.goal_solved_share
    if goal * len(mazes) > solvable:
        needed = sorted(maze.shortest_turns for maze in mazes)
        enough = next(t for t in needed if solvable_within(mazes, max_turns=t) >= goal * len(mazes))
        yield Fault(
            field="maze.max_turns",
            value=config.maze.max_turns,
            rule=f"lets a perfect agent solve {solvable} of {len(mazes)} mazes, below the goal of {goal:.1%}",
            remedy=f"Give at least {enough} turns, or lower evaluation.goal_solved_share.",
        )


def _model_and_warm_start(config: JobConfig) -> Iterator[Fault]:
    trainer = config.trainer
    if (trainer.model is None) == (trainer.warm_start is None):
        yield Fault(
            field="trainer.model",
            value=trainer.model,
            rule="and trainer.warm_start must not be both given or both left out",
            remedy="Give the model's folder, or describe the warm start of a tiny one.",
        )


def _uneven_batches(config: JobConfig) -> Iterator[Fault]:
    """SkyRL accepts some of these and fails after the first rollout, when GPU hours are already spent."""
    grpo, gpus = config.trainer.grpo, config.trainer.gpus
    unit = _smallest_step(grpo, gpus)
    if grpo.mazes_per_step % unit:
        below, above = grpo.mazes_per_step // unit * unit, (grpo.mazes_per_step // unit + 1) * unit
        yield Fault(
            field="trainer.grpo.mazes_per_step",
            value=grpo.mazes_per_step,
            rule=f"does not give each of {gpus} GPUs whole passes of {grpo.samples_per_pass} of the "
            f"{grpo.samples_per_maze} samples a maze in each of {grpo.minibatches} minibatches",
            remedy=f"Use {f'{below} or ' if below else ''}{above}.",
        )


def _smallest_step(grpo: GrpoConfig, gpus: int) -> int:
    """The fewest mazes a step that cut evenly: minibatches of equal size, whole passes on every GPU."""
    passes = gpus * grpo.samples_per_pass
    return grpo.minibatches * passes // math.gcd(passes, grpo.samples_per_maze)
