"""What a run is made of, as one frozen object read from `profiles/<name>.yaml` and checked before any work.

A refusal names the field, the value, the rule and the remedy. The resolved config is saved with every run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from training.faults import ConfigError, Fault, faults_of
from training.maze import MIN_SIZE, Maze, maze_for, solvable_within
from training.rewards import RewardWeights

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


class PolicyConfig(Section):
    """The tiny vision-language policy of the plain trainer."""

    channels: int = Field(default=16, ge=4)
    """Give the features a cell of the picture is turned into."""
    iterations: int = Field(default=10, ge=1)
    """Give how often the vision tower looks around; two cells further each time."""
    decoder_width: int = Field(default=32, ge=4)
    """Give the hidden size of the decoder that writes the answer."""


class WarmStartConfig(Section):
    """Imitation of the solver before GRPO: stands for the walkthrough's SFT checkpoint."""

    mazes: int = Field(default=1500, ge=1)
    """Give the mazes demonstrated."""
    batch: int = Field(default=64, ge=1)
    """Give the pictures an optimizer step looks at."""
    learning_rate: float = Field(default=8e-3, gt=0)
    """Give AdamW's learning rate for the imitation."""
    check_every: int = Field(default=10, ge=1)
    """Give the optimizer steps between two looks at held-out mazes."""
    max_steps: int = Field(default=400, ge=1)
    """Give the optimizer steps after which a warm start that misses its share is an error."""
    solved_share: float = Field(default=0.35, ge=0, le=1)
    """Give the share of held-out mazes at which imitation ends."""


class GrpoConfig(Section):
    """GRPO: groups of samples of the same maze, advantages normalised in the group, clipped objective."""

    steps: int = Field(default=30, ge=1)
    """Give the number of rollout-and-update steps."""
    mazes_per_step: int = Field(default=12, ge=1)
    """Give the groups of a step: one maze each."""
    samples_per_maze: int = Field(default=8, ge=2)
    """Give the episodes of a group; one alone has no advantage, so at least 2."""
    minibatches: int = Field(default=4, ge=1)
    """Give the optimizer steps each batch of rollouts is cut into."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Give AdamW's learning rate."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """Give how far a token's probability ratio may move before its gradient stops."""
    temperature: float = Field(default=1.0, gt=0)
    """Give the sampling temperature of the rollouts."""


class PlainTrainer(Section):
    """The small trainer of `training/plain`: CPU, a tiny policy, Ray actors on the cluster's GPUs."""

    policy: PolicyConfig = PolicyConfig()
    """Describe the policy."""
    warm_start: WarmStartConfig = WarmStartConfig()
    """Describe the imitation before GRPO."""
    grpo: GrpoConfig = GrpoConfig()
    """Describe the GRPO steps."""
    rollout_workers: int = Field(default=2, ge=1)
    """Give the actors that play mazes, a GPU each; one more GPU goes to the learner."""
    checkpoint_every: int = Field(default=5, ge=1)
    """Give the steps between two checkpoints: the most that an interruption loses."""


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
    trainer: PlainTrainer = PlainTrainer()
    """Describe the trainer."""

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if faults := tuple(_broken_rules(self)):
            raise ConfigError(faults)
        return self

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
    yield from _groups_without_a_worker(config)


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


def _groups_without_a_worker(config: JobConfig) -> Iterator[Fault]:
    workers, groups = config.trainer.rollout_workers, config.trainer.grpo.mazes_per_step
    if groups % workers:
        sizes = sorted({max(workers, groups - groups % workers), groups - groups % workers + workers})
        yield Fault(
            field="trainer.grpo.mazes_per_step",
            value=groups,
            rule=f"is not a multiple of the {workers} rollout workers, so some would wait",
            remedy=f"Use {' or '.join(map(str, sizes))}.",
        )
