"""The reward of an episode: mostly for the task, a little for keeping the answer format.

The mixture is the one of the public recipe for VisGym's SFT checkpoint. Because of the format part a reward
above zero does NOT mean solved; solve rates are counted from `Episode.solved` alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class RewardWeights:
    """Shares of the reward; an episode earns between 0 and their sum."""

    task: float = 0.8
    """For stopping on the target."""
    format: float = 0.2
    """Times the share of turns whose answer was well formed."""

    def of(self, *, solved: bool, well_formed_turns: int, turns: int) -> float:
        """The reward of one finished episode; an episode without turns earns nothing."""
        if turns == 0:
            return 0.0
        return self.task * solved + self.format * well_formed_turns / turns
