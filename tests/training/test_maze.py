"""The maze behaves as VisGym's maze_2d does, and generated mazes are mazes."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import training.maze
from training.actions import ACTIONS, Direction, Move, Stop
from training.maze import (
    HELD_OUT_SEEDS,
    PUBLISHED_SEEDS,
    TRAINING_SEEDS,
    MazeEnvironment,
    StopReason,
    direction_between,
    maze_for,
    neighbour,
    published_mazes,
    render,
    solution,
    solvable_within,
    training_mazes,
)

PUBLISHED = json.loads((Path(training.maze.__file__).parent / "data" / "maze_2d_seeds.json").read_text())
odd_sizes = st.sampled_from([5, 7, 9, 11, 13, 21])


def play(maze, actions, *, max_turns=20):
    environment = MazeEnvironment(maze=maze, max_turns=max_turns)
    for action in actions:
        environment.step(str(action))
    return environment.episode()


@pytest.mark.parametrize(("size", "key"), [(9, "easy"), (11, "hard")])
@pytest.mark.parametrize("seed", PUBLISHED_SEEDS)
def test_published_maze_equals_visgyms_to_the_pixel(size, key, seed):
    expected = PUBLISHED[key][seed]
    maze = maze_for(size=size, seed=seed)
    frame = MazeEnvironment(maze=maze, max_turns=1).observe()
    assert list(frame.shape) == expected["image_shape"]
    assert hashlib.sha256(frame.tobytes()).hexdigest() == expected["image_sha256"]
    assert maze.shortest_turns == expected["shortest_turns"]


@given(size=odd_sizes, seed=st.integers(64, 2**31))
def test_generated_maze_is_a_tree_between_opposite_corners(size, seed):
    maze = maze_for(size=size, seed=seed)
    cells = [(r, c) for r in range(size) for c in range(size) if not maze.is_wall((r, c))]
    corridors = sum(
        not maze.is_wall(neighbour(cell, d)) for cell in cells for d in (Direction.RIGHT, Direction.DOWN)
    )
    corners = {1, size - 2}
    assert set(maze.next_cells) == set(cells), "every open cell can be reached"
    assert corridors == len(cells) - 1, "connected with one edge fewer than cells: a tree"
    assert {(r, c) for r in range(1, size, 2) for c in range(1, size, 2)} <= set(cells)
    assert {*maze.start, *maze.target} <= corners
    assert maze.target == (size - 1 - maze.start[0], size - 1 - maze.start[1])
    assert maze_for(size=size, seed=seed) == maze, "the seed decides the maze"


def test_generated_mazes_follow_wilsons_uniform_distribution():
    """At 7x7 a uniform tree needs 8 moves in 88 % of the mazes, as measured on VisGym's own generator."""
    mazes = [maze_for(size=7, seed=seed) for seed in range(1_000, 3_000)]
    share = sum(maze.shortest_turns == 9 for maze in mazes) / len(mazes)
    assert share == pytest.approx(0.88, abs=0.025)
    assert len({maze.start for maze in mazes}) == 4


@pytest.mark.parametrize("size", [-1, 0, 3, 4, 10])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"maze size {size}: must be odd and at least 5"):
        maze_for(size=size, seed=1)


def test_training_mazes_never_meet_the_evaluation_mazes():
    evaluation = published_mazes(9)
    drawn = list(itertools.islice(training_mazes(size=9, seed=3, exclude=evaluation), 2_000))
    assert not {maze.fingerprint for maze in drawn} & {maze.fingerprint for maze in evaluation}
    assert all(maze.seed in TRAINING_SEEDS for maze in drawn)
    assert PUBLISHED_SEEDS.stop <= HELD_OUT_SEEDS.start < HELD_OUT_SEEDS.stop <= TRAINING_SEEDS.start
    assert len({maze.seed for maze in drawn}) == 2_000


def test_a_layout_of_the_evaluation_set_is_skipped():
    first, second = itertools.islice(training_mazes(size=9, seed=5), 2)
    assert next(training_mazes(size=9, seed=5, exclude=[first])) == second


def test_training_mazes_depend_on_the_run_seed():
    assert next(training_mazes(size=9, seed=1)) != next(training_mazes(size=9, seed=2))
    assert next(training_mazes(size=9, seed=1)) == next(training_mazes(size=9, seed=1))


@given(size=odd_sizes, seed=st.integers(0, 2**31))
def test_solution_solves_every_maze_in_the_shortest_turns(size, seed):
    maze = maze_for(size=size, seed=seed)
    episode = play(maze, solution(maze), max_turns=maze.shortest_turns)
    assert episode.solved
    assert episode.efficiency == 1.0
    assert len(episode.turns) == maze.shortest_turns


def test_fifteen_turns_cap_the_easy_mazes_at_fifty():
    assert solvable_within(published_mazes(9), max_turns=15) == 50
    assert solvable_within(published_mazes(9), max_turns=20) == 64
    assert solvable_within(published_mazes(11), max_turns=30) == 63


def test_reaching_the_target_without_stopping_is_not_solved():
    maze = maze_for(size=9, seed=0)
    moves = solution(maze)[:-1]
    episode = play(maze, moves, max_turns=len(moves))
    assert episode.path[-1] == maze.target
    assert episode.stop_reason is StopReason.TURN_LIMIT
    assert not episode.solved


def test_stopping_elsewhere_ends_unsolved():
    episode = play(maze_for(size=9, seed=0), [Stop()])
    assert episode.stop_reason is StopReason.STOPPED_ELSEWHERE
    assert not episode.solved
    assert episode.efficiency is None


def test_wall_and_nonsense_cost_a_turn_and_move_nothing():
    maze = maze_for(size=9, seed=0)  # starts at (7, 1): wall below and to the left
    environment = MazeEnvironment(maze=maze, max_turns=3)
    assert environment.step("('move', 3)").feedback == "Cannot move into a wall."
    assert environment.step("let me think").answer.action is None
    assert not environment.done
    environment.step("('move', 2)")
    assert environment.done
    assert environment.episode().path == (maze.start,) * 4
    assert environment.episode().invalid_actions == 1


def test_a_target_left_again_keeps_a_white_disc():
    maze = maze_for(size=9, seed=0)
    before_target = maze.shortest_path[-2]
    environment = MazeEnvironment(maze=maze, max_turns=30)
    for action in solution(maze)[:-1]:
        environment.step(str(action))
    environment.step(str(Move(direction_between(maze.target, before_target))))
    centre = (maze.target[0] * 25 + 12, maze.target[1] * 25 + 12)
    assert environment.agent == before_target
    assert tuple(environment.observe()[centre]) == (255, 255, 255)
    assert tuple(render(maze, before_target)[centre]) == (255, 0, 0)


def test_an_environment_is_used_once():
    environment = MazeEnvironment(maze=maze_for(size=9, seed=0), max_turns=5)
    with pytest.raises(RuntimeError, match="has not ended"):
        environment.episode()
    environment.step("('stop', 'stop')")
    with pytest.raises(RuntimeError, match="used once"):
        environment.step("('stop', 'stop')")


def test_cut_off_names_the_context_length_unless_already_ended():
    environment = MazeEnvironment(maze=maze_for(size=9, seed=0), max_turns=5)
    environment.cut_off()
    assert environment.episode().stop_reason is StopReason.CONTEXT_LENGTH
    ended = MazeEnvironment(maze=maze_for(size=9, seed=0), max_turns=5)
    ended.step("('stop', 'stop')")
    ended.cut_off()
    assert ended.episode().stop_reason is StopReason.STOPPED_ELSEWHERE


@given(
    answers=st.lists(
        st.one_of(st.sampled_from([str(a) for a in ACTIONS[:4]]), st.text(max_size=30)), max_size=20
    )
)
def test_whatever_is_answered_the_agent_stays_on_paths_and_the_episode_ends(answers):
    environment = MazeEnvironment(maze=maze_for(size=9, seed=7), max_turns=20)
    for answer in [*answers, *["?"] * 20]:
        if environment.done:
            break
        environment.step(answer)
        assert not environment.maze.is_wall(environment.agent)
        assert environment.observe().dtype == np.uint8
    assert environment.done
