"""The plain trainer's parts: advantages, sampling, the update, the imitation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.config import PolicyConfig, load_config
from training.maze import FEEDBACK_WALL, maze_for, render
from training.plain.advantages import group_advantages
from training.plain.learner import Learner
from training.plain.policy import (
    ANSWER_TOKENS,
    END,
    MAX_ANSWER_TOKENS,
    TOKENS,
    Policy,
    feedback_token,
    process_images,
    text_of,
)
from training.plain.rollout import RolloutWorker

CONFIG = load_config("smoke")
MAZES = [maze_for(size=5, seed=seed) for seed in range(8)]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=16))
def test_advantages_of_a_group_are_centred_scaled_and_keep_the_order(rewards):
    advantages = group_advantages(rewards)
    assert sum(advantages) == pytest.approx(0, abs=1e-6)
    if any(advantages):
        assert np.std(advantages) == pytest.approx(1)
        assert np.argmax(advantages) in np.flatnonzero(np.isclose(rewards, max(rewards)))
    else:
        assert np.std(rewards) < 1e-8


def test_equal_rewards_teach_nothing():
    assert group_advantages([0.2] * 8) == [0.0] * 8


def test_the_image_processor_keeps_every_maze_apart_and_shows_the_agent():
    images = process_images([render(maze, cell) for maze in MAZES[:2] for cell in maze.next_cells])
    assert images.shape[1:] == (25, 25, 3)
    assert len(np.unique(images, axis=0)) == len(images)


def test_answers_are_texts_and_feedback_is_never_written():
    policy = Policy(PolicyConfig())
    images = process_images([render(maze, maze.start) for maze in MAZES])
    answers = policy.answer(
        images,
        [feedback_token(FEEDBACK_WALL)] * 8,
        temperature=5.0,
        generator=torch.Generator().manual_seed(0),
    )
    assert answers.tokens_BT.shape == (8, MAX_ANSWER_TOKENS)
    assert answers.tokens_BT.max() < ANSWER_TOKENS
    assert (answers.tokens_BT[~answers.mask_BT] == TOKENS[END]).all()
    assert text_of([0, 4, TOKENS[END], 1]) == "('move', 0) ('stop', 'stop')"


def test_sampled_log_probabilities_are_those_the_learner_computes():
    """If they differed, the first update of every batch would already be clipped."""
    worker = RolloutWorker(CONFIG, rank=0)
    policy = Policy(CONFIG.trainer.policy)
    _, samples = worker.play(policy.state_dict(), MAZES, temperature=1.0, stream="test")
    with torch.no_grad():
        context = policy.context(samples.images_N)
        tokens = torch.from_numpy(samples.tokens_NT)
        logits = policy.logits(context, torch.from_numpy(samples.feedback_N), tokens)
        expected = logits.log_softmax(dim=-1).gather(2, tokens.unsqueeze(2)).squeeze(2)
    mask = samples.mask_NT
    np.testing.assert_allclose(samples.log_probs_NT[mask], expected.numpy()[mask], atol=1e-4)


def test_equal_streams_play_alike_and_ranks_do_not():
    weights = Policy(CONFIG.trainer.policy).state_dict()

    def play(rank, stream):
        return RolloutWorker(CONFIG, rank=rank).play(weights, MAZES, temperature=1.0, stream=stream)[0]

    assert play(0, "step 1") == play(0, "step 1")
    assert play(0, "step 1") != play(0, "step 2")
    assert play(0, "step 1") != play(1, "step 1")


def samples_of(learner):
    return RolloutWorker(CONFIG, rank=0).play(learner.weights(), MAZES, temperature=1.0, stream="s")[1]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_update_makes_good_answers_likelier_and_bad_ones_rarer(sign):
    learner = Learner(CONFIG)
    samples = samples_of(learner)
    before = mean_log_prob(learner, samples, episode=0)
    advantages = [sign, *[0.0] * (len(MAZES) - 1)]
    metrics = learner.update(1, [advantages], samples)
    change = mean_log_prob(learner, samples, episode=0) - before
    assert change * sign > 0
    assert metrics.gradient_norm > 0


def mean_log_prob(learner, samples, *, episode):
    chosen = samples.episode_N == episode
    policy = Policy(CONFIG.trainer.policy)
    policy.load_state_dict(learner.weights())
    with torch.no_grad():
        tokens = torch.from_numpy(samples.tokens_NT[chosen])
        feedback = torch.from_numpy(samples.feedback_N[chosen])
        logits = policy.logits(policy.context(samples.images_N[chosen]), feedback, tokens)
        log_probs = logits.log_softmax(dim=-1).gather(2, tokens.unsqueeze(2)).squeeze(2)
    return float(log_probs[torch.from_numpy(samples.mask_NT[chosen])].mean())


def test_groups_without_signal_leave_the_policy_as_it_was():
    learner = Learner(CONFIG)
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    samples = samples_of(learner)
    metrics = learner.update(1, [[0.0] * len(MAZES)], samples)
    assert metrics.gradient_norm == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())


def test_imitation_learns_from_the_solver():
    learner = Learner(CONFIG)
    first = learner.imitate(steps=1)
    assert learner.imitate(steps=30) < first / 2


def test_a_saved_learner_goes_on_exactly_where_it_was(tmp_path):
    learner = Learner(CONFIG)
    samples = samples_of(learner)
    advantages = [[1.0, -1.0] * (len(MAZES) // 2)]
    learner.update(1, advantages, samples)
    learner.save(tmp_path / "learner.pt")
    restored = Learner(CONFIG)
    restored.load(tmp_path / "learner.pt")
    for one in (learner, restored):
        one.update(2, advantages, samples)
    assert all(
        torch.equal(a, b)
        for a, b in zip(learner.weights().values(), restored.weights().values(), strict=True)
    )
