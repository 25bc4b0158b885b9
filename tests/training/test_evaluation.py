"""The scripted policies set the scale, and counts come from episodes that were played."""

import random

import pytest

from training.evaluation import POLICIES, PolicyName, play
from training.maze import MazeEnvironment, StopReason, published_mazes
from training.results import Evaluation, evaluation_of
from training.rewards import RewardWeights


def evaluate(policy, *, size=9, max_turns=20, seed=0):
    episodes = play(published_mazes(size), policy=POLICIES[policy], max_turns=max_turns, seed=seed)
    return evaluation_of(episodes, step=0, max_turns=max_turns, temperature=0.0, weights=RewardWeights())


@pytest.mark.parametrize(
    ("size", "max_turns", "solved"), [(9, 20, 64), (9, 15, 50), (11, 33, 64), (11, 20, 35)]
)
def test_the_oracle_solves_exactly_what_can_be_solved(size, max_turns, solved):
    evaluation = evaluate(PolicyName.ORACLE, size=size, max_turns=max_turns)
    assert evaluation.solved == evaluation.ceiling == solved
    assert evaluation.mean_efficiency == 1.0


def test_policies_without_learning_stay_far_below_the_oracle():
    assert evaluate(PolicyName.RANDOM).solved <= 3
    assert 5 <= evaluate(PolicyName.GREEDY).solved <= 30


def test_a_policy_draws_from_its_seed_alone():
    assert evaluate(PolicyName.RANDOM, seed=1) == evaluate(PolicyName.RANDOM, seed=1)
    assert evaluate(PolicyName.RANDOM, seed=1) != evaluate(PolicyName.RANDOM, seed=2)


def test_format_credit_alone_is_a_reward_but_not_a_solved_maze():
    """64 unsolved mazes with well-formed answers: every reward is positive, no maze is solved."""
    episodes = play(published_mazes(9), policy=lambda *_: "('move', 0)", max_turns=20, seed=0)
    evaluation = evaluation_of(episodes, step=0, max_turns=20, temperature=0.0, weights=RewardWeights())
    assert evaluation.solved == 0
    assert evaluation.mean_reward == pytest.approx(0.2)
    assert evaluation.stop_reasons == {StopReason.TURN_LIMIT: 64}


def test_evaluation_survives_json_and_writes_its_counts():
    evaluation = evaluate(PolicyName.GREEDY)
    text = evaluation.model_dump_json()
    assert Evaluation.model_validate_json(text) == evaluation
    assert f'"solved":{evaluation.solved}' in text
    assert [episode.seed for episode in evaluation.episodes] == list(range(64))


def test_greedy_stops_on_the_target():
    maze = published_mazes(9)[0]
    environment = MazeEnvironment(maze=maze, max_turns=5)
    environment.agent = maze.target
    assert POLICIES[PolicyName.GREEDY](environment, random.Random(0)) == "('stop', 'stop')"
