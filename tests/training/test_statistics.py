"""Intervals against published values, and at their edges."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.statistics import compare_paired, mean_pass_at_k, pass_at_k, wilson_interval


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


@given(samples=st.integers(1, 8), data=st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_success(samples, data):
    successes = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    tries = [True] * successes + [False] * (samples - successes)
    draws = list(itertools.combinations(tries, k))
    assert pass_at_k(samples=samples, successes=successes, k=k) == pytest.approx(
        sum(map(any, draws)) / len(draws)
    )


def test_pass_at_one_is_the_solved_share():
    assert mean_pass_at_k([8, 0, 4, 2], samples=8, k=1) == pytest.approx(14 / 32)


@pytest.mark.parametrize(("samples", "successes", "k"), [(4, 2, 5), (4, 2, 0), (4, 5, 1), (4, -1, 1)])
def test_impossible_pass_at_k_is_refused(samples, successes, k):
    with pytest.raises(ValueError, match="need 1 <= k <= samples"):
        pass_at_k(samples=samples, successes=successes, k=k)


@pytest.mark.parametrize(
    ("gained", "lost", "p_value"),
    # R: binom.test(lost, gained + lost)$p.value
    [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (6, 1, 0.125),
        (10, 0, 0.001953125),
        (34, 0, 1.1641532e-10),
        (9, 2, 0.06542969),
    ],
)
def test_paired_comparison_is_mcnemars_exact_test(gained, lost, p_value):
    pairs = [(False, True)] * gained + [(True, False)] * lost + [(True, True)] * 7 + [(False, False)] * 3
    comparison = compare_paired(pairs)
    assert (comparison.gained, comparison.lost) == (gained, lost)
    assert comparison.p_value == pytest.approx(p_value)
