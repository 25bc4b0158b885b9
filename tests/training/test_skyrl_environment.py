"""The maze as SkyRL's generator plays it: it cannot end the run, and its metric cannot lie."""

import base64
import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import skyrl_gym
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from training import environment as module
from training.environment import ENVIRONMENT_ID, MazeTextEnv, finished_episodes, register_environment
from training.maze import Maze, MazeEnvironment, maze_for, render, solution

MAZE = maze_for(size=9, seed=0)


def environment(*, max_turns: int = 20, seed: int = 0) -> MazeTextEnv:
    register_environment()
    extras = {"size": 9, "seed": seed, "max_turns": max_turns}
    env: MazeTextEnv = skyrl_gym.make(ENVIRONMENT_ID, env_config={}, extras=extras)
    return env


def picture(message: dict[str, Any]) -> np.ndarray:
    [url] = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def test_the_first_message_tells_the_task_and_shows_the_first_frame() -> None:
    [message], _ = environment().init([{"role": "user", "content": "ignored"}])
    np.testing.assert_array_equal(picture(message), render(MAZE, MAZE.start))


def test_the_solution_is_rewarded_once_at_its_end_and_counts_as_solved() -> None:
    env = environment()
    env.init([])
    outcomes = [env.step(str(action)) for action in solution(MAZE)]
    assert [o["reward"] for o in outcomes] == [0.0] * (len(outcomes) - 1) + [1.0]
    assert [o["done"] for o in outcomes] == [False] * (len(outcomes) - 1) + [True]
    assert env.get_metrics()["solved"] == 1.0


def test_an_unsolved_maze_with_format_credit_has_a_reward_but_is_not_solved() -> None:
    """What SkyRL's pass_at_n would count as passed."""
    env = environment()
    env.init([])
    outcome = env.step("('stop', 'stop')")
    assert outcome["reward"] == pytest.approx(0.2)
    assert env.get_metrics()["solved"] == 0.0


def test_an_episode_cut_off_by_the_input_length_has_metrics() -> None:
    env = environment()
    env.init([])
    env.step("('move', 0)")
    metrics = env.get_metrics()
    assert metrics["stop_reason/context_length"] == 1.0
    assert metrics["turns"] == 1.0


@given(answers=st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_no_answer_makes_the_environment_raise(answers: list[str]) -> None:
    env = environment(max_turns=4)
    env.init([])
    for answer in answers:
        if env.step(answer)["done"]:
            break
    env.get_metrics()


def test_a_fault_in_the_maze_ends_this_episode_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: MazeEnvironment, answer: str) -> None:
        raise RuntimeError("a bug")

    env = environment()
    env.init([])
    monkeypatch.setattr(MazeEnvironment, "step", broken)
    outcome = env.step("('move', 0)")
    assert (outcome["done"], outcome["reward"]) == (True, 0.0)
    assert env.get_metrics()["environment_errors"] == 1.0


def test_finished_episodes_are_kept_for_the_evaluation() -> None:
    finished_episodes.clear()
    env = environment(max_turns=1)
    env.init([])
    env.step("('move', 1)")
    env.get_metrics()
    assert [episode.maze for episode in finished_episodes] == [MAZE]


def test_frames_of_a_group_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counting(maze: Maze, agent: tuple[int, int], *, left_target: bool = False) -> np.ndarray:
        drawn.append(agent)
        return render(maze, agent, left_target=left_target)

    monkeypatch.setattr(module, "render", counting)
    module._picture.cache_clear()
    for _ in range(8):
        environment(seed=7).init([])
    assert len(drawn) == 1


def test_the_deployed_entry_does_not_import_the_stand_ins() -> None:
    code = (
        "import sys, training.entry, training.dataset\n"
        "print([name for name in sys.modules if name.startswith('training.local')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
