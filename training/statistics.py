"""The few statistics a graded result needs."""

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Interval:
    """A confidence interval for a share, both ends in 0..1."""

    low: float
    high: float


def wilson_interval(*, successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for successes out of trials; it stays inside 0..1 at both extremes.

    Raises ValueError without trials, or for successes outside 0..trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"{successes} successes in {trials} trials: need 0 <= successes <= trials, trials >= 1"
        )
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, z2 = successes / trials, z * z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return Interval(low=max(0.0, centre - half), high=min(1.0, centre + half))
