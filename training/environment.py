"""The maze as SkyRL's generator plays it: an adapter to skyrl-gym's `BaseTextEnv`.

SkyRL gathers all trajectories of a step without catching exceptions, so one exception in one environment ends
the run. `step` therefore never raises: what goes wrong ends that episode as unsolved and is counted in the
metric `environment_errors`.
"""

import base64
import functools
import io
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

from PIL import Image
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType
from skyrl_gym.envs.registration import register, registry

from training.maze import Cell, Episode, Maze, MazeEnvironment, maze_for, prompt_for, render
from training.rewards import RewardWeights

logger = logging.getLogger(__name__)

ENVIRONMENT_ID = "maze_2d"

finished_episodes: deque[Episode] = deque(maxlen=4096)
"""Episodes of this process, newest last: SkyRL's evaluation dump has no per-episode metrics, so the
evaluation callback collects them here."""


def register_environment() -> None:
    """Make `maze_2d` known to skyrl-gym in this process; SkyRL asks for it where the trainer runs."""
    if ENVIRONMENT_ID not in registry:
        register(id=ENVIRONMENT_ID, entry_point="training.environment:MazeTextEnv")


class MazeTextEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl-gym has no types
    """One episode. `extras` is the dataset row: `size` and `seed` of the maze, plus SkyRL's `max_turns`."""

    def __init__(self, env_config: object = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        row = extras or {}
        self._maze = maze_for(size=int(row["size"]), seed=int(row["seed"]))
        self._environment = MazeEnvironment(maze=self._maze, max_turns=int(row["max_turns"]))
        self._weights = RewardWeights(
            task=float(row.get("task_reward", 0.8)), format=float(row.get("format_reward", 0.2))
        )
        self._errors = 0

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """The task in words and the first frame; the row's own prompt only measured the length."""
        return [self._message(prompt_for(self._maze.size))], {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one answer of the model; the reward comes with the last one."""
        try:
            return self._step(action)
        except Exception:
            # Broad on purpose, see the module docstring: the alternative is to lose the whole run.
            logger.exception("maze %s of size %s: episode given up", self._maze.seed, self._maze.size)
            self._errors += 1
            return BaseTextEnvStepOutput(observations=[], reward=0.0, done=True, metadata={})

    def _step(self, action: str) -> BaseTextEnvStepOutput:
        turn = self._environment.step(action)
        done = self._environment.done
        observations = [] if done else [self._message(turn.feedback)]
        reward = self._reward() if done else 0.0
        return BaseTextEnvStepOutput(observations=observations, reward=reward, done=done, metadata={})

    def _reward(self) -> float:
        episode = self._environment.episode()
        return self._weights.of(
            solved=episode.solved, well_formed_turns=episode.well_formed_turns, turns=len(episode.turns)
        )

    def _message(self, text: str) -> dict[str, Any]:
        environment = self._environment
        left_target = environment.left_target
        content = [
            {"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": _picture(self._maze, environment.agent, left_target)}},
        ]
        return {"role": "user", "content": content}

    def get_metrics(self) -> dict[str, Any]:
        """Per-episode numbers; SkyRL averages them into `environment/*` and `eval/all/environment/*`.

        `solved` is the headline: SkyRL's own `pass_at_n` counts any positive reward, format credit included.
        """
        # Cut off by the input length, SkyRL never calls step again and asks for the metrics.
        self._environment.cut_off()
        episode = self._environment.episode()
        finished_episodes.append(episode)
        return {
            "solved": float(episode.solved),
            "turns": float(len(episode.turns)),
            "invalid_actions": float(episode.invalid_actions),
            "environment_errors": float(self._errors),
            **{
                f"stop_reason/{reason}": float(reason is episode.stop_reason)
                for reason in type(episode.stop_reason)
            },
        }


@functools.lru_cache(maxsize=16_384)
def _picture(maze: Maze, agent: Cell, left_target: bool) -> str:
    """A frame as a data URL. The samples of a group share their maze, so most frames are asked for again."""
    buffer = io.BytesIO()
    Image.fromarray(render(maze, agent, left_target=left_target)).save(buffer, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
