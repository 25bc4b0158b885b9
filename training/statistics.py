"""The few statistics a graded result needs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean


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


def pass_at_k(*, samples: int, successes: int, k: int) -> float:
    """The chance that at least one of k samples succeeds, estimated without bias from `samples` tries.

    The estimator of Chen et al. 2021: 1 - C(samples - successes, k) / C(samples, k). Raises ValueError unless
    1 <= k <= samples and 0 <= successes <= samples.
    """
    if not 1 <= k <= samples or not 0 <= successes <= samples:
        raise ValueError(
            f"{successes} successes in {samples} samples at k = {k}: need 1 <= k <= samples >= successes >= 0"
        )
    return 1 - math.comb(samples - successes, k) / math.comb(samples, k)


def mean_pass_at_k(successes_by_task: Sequence[int], *, samples: int, k: int) -> float:
    """pass@k over tasks that were each tried `samples` times."""
    return fmean(pass_at_k(samples=samples, successes=count, k=k) for count in successes_by_task)


@dataclass(frozen=True)
class PairedComparison:
    """The same tasks before and after: only those whose outcome changed say something."""

    gained: int
    """Failed before, solved after."""
    lost: int
    """Solved before, failed after."""
    p_value: float
    """How likely a split at least this uneven is if training had changed nothing (two-sided)."""


def compare_paired(outcomes: Iterable[tuple[bool, bool]]) -> PairedComparison:
    """McNemar's exact test on (before, after) pairs: a sign test on the tasks that changed."""
    pairs = list(outcomes)
    gained = sum(after and not before for before, after in pairs)
    lost = sum(before and not after for before, after in pairs)
    changed, rarer = gained + lost, min(gained, lost)
    tail = sum(math.comb(changed, count) for count in range(rarer + 1)) / 2**changed
    return PairedComparison(gained=gained, lost=lost, p_value=min(1.0, 2 * tail))
