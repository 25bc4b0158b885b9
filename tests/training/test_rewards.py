"""Rewards: 0.8 for the task, 0.2 for the share of well-formed turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.rewards import RewardWeights


@pytest.mark.parametrize(
    ("solved", "well_formed", "turns", "reward"),
    [(True, 13, 13, 1.0), (True, 0, 13, 0.8), (False, 20, 20, 0.2), (False, 5, 20, 0.05), (False, 0, 0, 0.0)],
)
def test_reward_of_an_episode(solved, well_formed, turns, reward):
    assert RewardWeights().of(solved=solved, well_formed_turns=well_formed, turns=turns) == pytest.approx(
        reward
    )


@given(turns=st.integers(1, 50), data=st.data())
def test_an_unsolved_episode_never_earns_as_much_as_a_solved_one(turns, data):
    weights = RewardWeights()
    formed = st.integers(0, turns)
    solved = weights.of(solved=True, well_formed_turns=data.draw(formed), turns=turns)
    unsolved = weights.of(solved=False, well_formed_turns=data.draw(formed), turns=turns)
    assert 0 <= round(unsolved, 9) <= 0.2
    assert 0.8 <= round(solved, 9) <= 1
