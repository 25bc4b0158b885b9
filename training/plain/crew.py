"""The Ray actors of a run, one GPU each, spread over the nodes: a learner and the rollout workers.

The driver needs neither CPU nor GPU of its own, so it runs on a head node that offers none to tasks.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training.config import JobConfig
from training.faults import JobError
from training.maze import Episode, Maze
from training.plain.learner import Learner, UpdateMetrics
from training.plain.rollout import RolloutWorker

BUNDLE = {"CPU": 1, "GPU": 1}
# A cluster whose workers are still starting gets this long; autoscaled nodes take minutes.
PLACEMENT_TIMEOUT_SECONDS = 600


class ClusterTooSmall(JobError):
    """The cluster does not offer what the run asks for."""


@dataclass(frozen=True)
class Crew:
    """The actors, addressed as one."""

    learner: Any
    workers: tuple[Any, ...]

    def play(
        self, mazes: Sequence[Maze], *, temperature: float, stream: str
    ) -> tuple[list[Episode], list[list[Episode]], list[Any]]:
        """Play every maze once with the learner's present weights, in equal shares.

        All episodes in the order of the mazes, the same by worker, and references to their samples: these
        go from the workers to the learner and never through the driver.
        """
        weights = self.learner.weights.remote()
        shares = _shares(mazes, len(self.workers))
        references = [
            worker.play.options(num_returns=2).remote(weights, share, temperature=temperature, stream=stream)
            for worker, share in zip(self.workers, shares, strict=False)
        ]
        by_worker: list[list[Episode]] = ray.get([episodes for episodes, _ in references])
        return [episode for part in by_worker for episode in part], by_worker, [s for _, s in references]

    def update(
        self, step: int, advantages: Sequence[Sequence[float]], samples: Sequence[Any]
    ) -> UpdateMetrics:
        """One GRPO update of the learner."""
        metrics: UpdateMetrics = ray.get(self.learner.update.remote(step, advantages, *samples))
        return metrics

    def imitate(self, *, steps: int) -> float:
        """Some steps of the warm start; the last loss."""
        loss: float = ray.get(self.learner.imitate.remote(steps=steps))
        return loss

    def save(self, path: Path) -> None:
        """Let the learner write its state to a path that every node sees."""
        ray.get(self.learner.save.remote(path))

    def load(self, path: Path) -> None:
        """Let the learner read its state."""
        ray.get(self.learner.load.remote(path))


@contextmanager
def crew(config: JobConfig) -> Iterator[Crew]:
    """Connect to the cluster of RAY_ADDRESS, or start one in this process, and place the actors.

    Raises ClusterTooSmall when the GPUs do not become free in time. Everything started here ends with it.
    """
    gpus = config.trainer.rollout_workers + 1
    _connect(gpus)
    group = placement_group([BUNDLE] * gpus, strategy="SPREAD")
    try:
        _wait(group.ready(), gpus)
        learner, *workers = (
            ray.remote(kind).options(
                num_cpus=1,
                num_gpus=1,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=bundle
                ),
            )
            for bundle, kind in enumerate([Learner] + [RolloutWorker] * config.trainer.rollout_workers)
        )
        yield Crew(
            learner=learner.remote(config),
            workers=tuple(worker.remote(config, rank=rank) for rank, worker in enumerate(workers)),
        )
    finally:
        remove_placement_group(group)
        ray.shutdown()


def _connect(gpus: int) -> None:
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level=logging.WARNING)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Logical GPUs: the plain trainer computes on CPU wherever it is placed.
    ray.init(
        address="local", num_cpus=gpus, num_gpus=gpus, include_dashboard=False, logging_level=logging.WARNING
    )


def _wait(ready: Any, gpus: int) -> None:
    try:
        ray.get(ready, timeout=PLACEMENT_TIMEOUT_SECONDS)
    except GetTimeoutError as error:
        raise ClusterTooSmall(
            f"{gpus} GPUs with a CPU each did not become free in {PLACEMENT_TIMEOUT_SECONDS} s; "
            f"free are {ray.available_resources()}. "  # type: ignore[no-untyped-call]
            "Wait for its workers, end the job that holds them, or lower trainer.rollout_workers."
        ) from error


def _shares(mazes: Sequence[Maze], count: int) -> list[Sequence[Maze]]:
    """Consecutive shares of nearly equal length, none empty."""
    size = -(-len(mazes) // count)
    return [mazes[start : start + size] for start in range(0, len(mazes), size)]
