"""The reward of an episode: mostly for the task, a little for keeping the answer format.

The mixture is the one of the public recipe for VisGym's SFT checkpoint. Because of the format part a reward
above zero does NOT mean solved; solve rates are counted from `Episode.solved` alone.
"""

from pydantic import BaseModel, ConfigDict, Field


class RewardWeights(BaseModel):
    """Shares of the reward; an episode earns between 0 and their sum."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    task: float = Field(default=0.8, gt=0)
    """Give what stopping on the target earns."""
    format: float = Field(default=0.2, ge=0)
    """Give what an episode of well-formed answers earns; it is paid by the share of such turns."""

    def of(self, *, solved: bool, well_formed_turns: int, turns: int) -> float:
        """The reward of one finished episode; an episode without turns earns nothing."""
        if turns == 0:
            return 0.0
        return self.task * solved + self.format * well_formed_turns / turns
