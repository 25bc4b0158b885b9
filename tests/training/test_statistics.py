"""Intervals against published values, and at their edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.statistics import wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (61, 64, 0.871, 0.984),
        (28, 64, 0.323, 0.559),
        # Newcombe 1998, table I: 81/263 and 0/20.
        (81, 263, 0.2553, 0.3662),
        (0, 20, 0.0, 0.1611),
    ],
)
def test_wilson_interval_matches_known_values(successes, trials, low, high):
    interval = wilson_interval(successes=successes, trials=trials)
    assert interval.low == pytest.approx(low, abs=6e-4)
    assert interval.high == pytest.approx(high, abs=6e-4)


@given(trials=st.integers(1, 2000), data=st.data())
def test_wilson_interval_holds_the_share_and_stays_in_range(trials, data):
    successes = data.draw(st.integers(0, trials))
    interval = wilson_interval(successes=successes, trials=trials)
    assert 0 <= interval.low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= interval.high <= 1


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ValueError, match="need 0 <= successes <= trials"):
        wilson_interval(successes=successes, trials=trials)
