"""The records of a run: graded episodes, evaluations, training steps; as JSON in `results.json`.

Counts are measured from episodes that were played; shares and intervals are computed from the counts.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, computed_field

from training.config import JobConfig
from training.maze import Cell, Episode, StopReason
from training.rewards import RewardWeights
from training.statistics import Interval, PairedComparison, compare_paired, wilson_interval


class Record(BaseModel):
    """A measured fact; computed fields are written for readers and recomputed on reading."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class GradedEpisode(Record):
    """One evaluation maze as it was played."""

    seed: int
    solved: bool
    stop_reason: StopReason
    turns: int
    shortest_turns: int
    invalid_actions: int
    reward: float
    path: tuple[Cell, ...]
    """Where the agent was turn by turn, as (row, column)."""

    @classmethod
    def of(cls, episode: Episode, weights: RewardWeights) -> "GradedEpisode":
        """Grade a finished episode."""
        return cls(
            seed=episode.maze.seed,
            solved=episode.solved,
            stop_reason=episode.stop_reason,
            turns=len(episode.turns),
            shortest_turns=episode.maze.shortest_turns,
            invalid_actions=episode.invalid_actions,
            reward=reward_of(episode, weights),
            path=episode.path,
        )


def reward_of(episode: Episode, weights: RewardWeights) -> float:
    """The reward that a finished episode earned."""
    return weights.of(
        solved=episode.solved, well_formed_turns=episode.well_formed_turns, turns=len(episode.turns)
    )


class Evaluation(Record):
    """The fixed mazes played once each at one point of the training."""

    step: int
    """Training steps done before it; 0 is the evaluation before training."""
    size: int
    max_turns: int
    temperature: float
    episodes: tuple[GradedEpisode, ...]

    @computed_field
    @property
    def solved(self) -> int:
        """Mazes whose agent reached the target and stopped there."""
        return sum(episode.solved for episode in self.episodes)

    @computed_field
    @property
    def total(self) -> int:
        """Mazes played."""
        return len(self.episodes)

    @computed_field
    @property
    def ceiling(self) -> int:
        """Mazes that a perfect agent solves within max_turns."""
        return sum(episode.shortest_turns <= self.max_turns for episode in self.episodes)

    @computed_field
    @property
    def solved_share(self) -> float:
        """Solved over total."""
        return self.solved / self.total

    @computed_field
    @property
    def interval_95(self) -> Interval:
        """Wilson's 95 % interval of the solved share."""
        return wilson_interval(successes=self.solved, trials=self.total)

    @computed_field
    @property
    def stop_reasons(self) -> dict[str, int]:
        """How many episodes ended for which reason."""
        return dict(sorted(Counter(episode.stop_reason.value for episode in self.episodes).items()))

    @computed_field
    @property
    def invalid_actions(self) -> int:
        """Turns in which no action was understood."""
        return sum(episode.invalid_actions for episode in self.episodes)

    @computed_field
    @property
    def mean_reward(self) -> float:
        """Mean reward of the episodes, format credit included."""
        return fmean(episode.reward for episode in self.episodes)

    @computed_field
    @property
    def mean_efficiency(self) -> float | None:
        """Mean of shortest turns over used turns among the solved mazes; none when none was solved."""
        solved = [episode.shortest_turns / episode.turns for episode in self.episodes if episode.solved]
        return fmean(solved) if solved else None

    def summary(self) -> str:
        """One line for people."""
        low, high = self.interval_95.low, self.interval_95.high
        return (
            f"{self.solved}/{self.total} solved "
            f"({self.solved_share:.1%}, 95 % interval {low:.1%} to {high:.1%}), "
            f"ceiling {self.ceiling}/{self.total} within {self.max_turns} turns"
        )


def evaluation_of(
    episodes: Iterable[Episode], *, step: int, max_turns: int, temperature: float, weights: RewardWeights
) -> Evaluation:
    """Grade episodes of one size, in the order of their seeds."""
    graded = sorted(episodes, key=lambda episode: episode.maze.seed)
    return Evaluation(
        step=step,
        size=graded[0].maze.size,
        max_turns=max_turns,
        temperature=temperature,
        episodes=tuple(GradedEpisode.of(episode, weights) for episode in graded),
    )


class StepMetrics(Record):
    """One GRPO step: what was sampled, what was learned, how long it took."""

    step: int
    solved_share: float
    mean_reward: float
    mean_turns: float
    groups_without_signal: float
    """Share of groups whose samples all earned the same: they teach nothing."""
    loss: float
    entropy: float
    clip_share: float
    """Share of tokens whose ratio was clipped."""
    gradient_norm: float
    logprob_gap: float
    """Mean distance, in nats, of the engine's log-probability of a sampled token from the policy's.

    Far from zero, the two hold different weights."""
    rollout_seconds: float
    learn_seconds: float


class Progress(Record):
    """What a run has measured so far; a resume drops what came after its checkpoint."""

    step: int
    evaluations: tuple[Evaluation, ...]
    steps: tuple[StepMetrics, ...]
    resumed_from: tuple[int, ...] = ()
    """The step of each resume."""


class Results(Record):
    """A finished run: the content of results.json."""

    run_id: str
    config: JobConfig
    versions: dict[str, str]
    commit: str
    started_at: datetime
    """Of the attempt that finished the run."""
    finished_at: datetime
    progress: Progress

    @computed_field
    @property
    def evaluation(self) -> dict[str, Any]:
        """The headline: the fixed mazes before and after training."""
        return {
            "before": _headline(self.before),
            "after": _headline(self.after),
            "paired": self.paired,
        }

    @property
    def paired(self) -> PairedComparison:
        """Before against after, maze by maze."""
        episodes = zip(self.before.episodes, self.after.episodes, strict=True)
        return compare_paired((before.solved, after.solved) for before, after in episodes)

    @property
    def before(self) -> Evaluation:
        """The evaluation before training."""
        return self.progress.evaluations[0]

    @property
    def after(self) -> Evaluation:
        """The evaluation after the last step."""
        return self.progress.evaluations[-1]


def _headline(evaluation: Evaluation) -> dict[str, Any]:
    names = {"solved", "total", "solved_share", "interval_95", "ceiling", "step", "temperature"}
    return evaluation.model_dump(mode="json", include=names)
