"""Playing mazes with the policy: an actor on one of the cluster's GPUs, all its episodes in one batch."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from training.config import JobConfig
from training.maze import Episode, Maze, MazeEnvironment
from training.plain.policy import Policy, feedback_token, process_images, text_of


@dataclass(frozen=True)
class Samples:
    """Every turn of a batch of episodes, N in all, as the learner needs them."""

    images_N: NDArray[np.uint8]
    feedback_N: NDArray[np.int64]
    tokens_NT: NDArray[np.int64]
    mask_NT: NDArray[np.bool_]
    log_probs_NT: NDArray[np.float32]
    episode_N: NDArray[np.int64]
    """Which episode of the batch a turn belongs to."""


class RolloutWorker:
    """Holds a copy of the policy and plays."""

    def __init__(self, config: JobConfig, *, rank: int) -> None:
        torch.set_num_threads(1)
        self._config = config
        self._rank = rank
        self._policy = Policy(config.trainer.policy).eval()

    def play(
        self, weights: dict[str, Any], mazes: Sequence[Maze], *, temperature: float, stream: str
    ) -> tuple[list[Episode], Samples]:
        """One episode a maze with these weights; equal names of `stream` give equal random numbers."""
        self._policy.load_state_dict(weights)
        generator = torch.Generator().manual_seed(_seed(f"{self._config.seed} {stream} {self._rank}"))
        environments = [MazeEnvironment(maze=maze, max_turns=self._config.maze.max_turns) for maze in mazes]
        feedback: dict[int, str | None] = dict.fromkeys(range(len(mazes)))
        turns = []
        while live := [n for n, environment in enumerate(environments) if not environment.done]:
            images = process_images([environments[n].observe() for n in live])
            read = [feedback_token(feedback[n]) for n in live]
            answers = self._policy.answer(images, read, temperature=temperature, generator=generator)
            for n, tokens in zip(live, answers.tokens_BT.tolist(), strict=True):
                feedback[n] = environments[n].step(text_of(tokens)).feedback
            turns.append((images, read, answers.tokens_BT, answers.mask_BT, answers.log_probs_BT, live))
        columns = (np.concatenate(column) for column in zip(*turns, strict=True))
        return [environment.episode() for environment in environments], Samples(*columns)


def _seed(text: str) -> int:
    """A 63-bit seed from words, equal in every process (Python's own hash is not)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
