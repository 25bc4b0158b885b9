"""GRPO's advantages: how much better an episode was than the others in the same maze."""

from collections.abc import Sequence
from statistics import fmean, pstdev

# Below this spread a group's rewards are equal but for rounding: nothing can be learned from it.
EQUAL = 1e-9


def group_advantages(rewards_G: Sequence[float]) -> list[float]:
    """Rewards of one group minus their mean, over their standard deviation; zeros when all are equal."""
    spread = pstdev(rewards_G)
    if spread < EQUAL:
        return [0.0] * len(rewards_G)
    mean = fmean(rewards_G)
    return [(reward - mean) / spread for reward in rewards_G]
