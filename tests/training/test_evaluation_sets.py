"""The evaluation sets are fixed, solvable within their turns, and apart from all training mazes."""

import itertools

import pytest

from training.evaluation_sets import EVALUATION_SETS, mazes_never_trained_on
from training.maze import TRAINING_SEEDS, published_mazes, training_mazes
from training.statistics import wilson_interval

SETS = list(EVALUATION_SETS.values())


@pytest.mark.parametrize("evaluation_set", SETS, ids=lambda one: one.name)
def test_a_set_has_as_many_mazes_as_its_name_says_all_below_the_training_seeds(evaluation_set):
    assert len(evaluation_set.mazes) == int(evaluation_set.name.split("-")[1])
    assert evaluation_set.seeds.stop <= TRAINING_SEEDS.start
    assert all(maze.size == evaluation_set.size for maze in evaluation_set.mazes)


def test_every_maze_can_be_solved_in_the_turns_but_one_under_visgyms_own_limit():
    missing = {one.name: len(one.mazes) - one.ceiling for one in SETS}
    assert missing == {"easy-64": 0, "hard-64": 1, "easy-512": 0, "hard-256": 0, "large-128": 0}


def test_published_and_held_out_mazes_do_not_overlap():
    easy = EVALUATION_SETS["easy-64"].mazes
    assert easy == published_mazes(9)
    assert not {m.fingerprint for m in easy} & {m.fingerprint for m in EVALUATION_SETS["easy-512"].mazes}


def test_training_leaves_out_the_layouts_of_every_set():
    never = mazes_never_trained_on(9)
    assert len(never) == 64 + 512
    drawn = itertools.islice(training_mazes(size=9, seed=0, exclude=never), 3_000)
    assert not {maze.fingerprint for maze in drawn} & {maze.fingerprint for maze in never}


def test_the_larger_sets_support_the_claim_that_the_published_one_cannot():
    assert wilson_interval(successes=62, trials=64).low < 0.95
    assert wilson_interval(successes=497, trials=512).low > 0.95
    assert wilson_interval(successes=251, trials=256).low > 0.95
