"""A run of SkyRL's trainer as a job: data, resume point, the training task, results and report."""

import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import ray
from ray.exceptions import RayError
from skyrl.train.utils.utils import initialize_ray

from training.callbacks import MarkCheckpoints, RecordProgress, StopWhenDiverged, progress_at
from training.checkpoints import prepare_resume
from training.config import Hardware, JobConfig, TrainerConfig
from training.dataset import write_evaluation_rows, write_training_rows
from training.entry import MazeExperiment
from training.evaluation_sets import mazes_never_trained_on
from training.faults import JobError
from training.provenance import commit, versions
from training.publish import publish
from training.results import Progress, Results
from training.run_folder import RunFolder, write_atomically
from training.self_test import Expectation, run_self_test
from training.skyrl_config import RunPaths, as_text, prepare_environment, skyrl_config
from training.telemetry import Telemetry
from training.telemetry_callback import TelemetryCallback

logger = logging.getLogger(__name__)

EVALUATION_SET = "fixed_mazes"
POLL_SECONDS = 0.5


class TrainingFailed(JobError):
    """The training task ended with an error; the same command resumes from the newest checkpoint."""


class RunInUse(JobError):
    """Another attempt of the same run is still at work."""


@dataclass(frozen=True)
class StartingPoint:
    """The model a run begins with."""

    model: str
    allowed_tokens: list[int] | None


def run_job(config: JobConfig, folder: RunFolder, *, before_work: Callable[[], None]) -> Results:
    """Do what is left of the run and write its results.

    `before_work` is called once Ray is connected, because connecting replaces signal handlers.
    """
    started_at = datetime.now(UTC)
    with _only_attempt(folder):
        progress = _train(config, RunPaths(folder.path), folder, before_work)
    results = Results(
        run_id=folder.run_id,
        config=config,
        versions=versions(),
        commit=commit(),
        started_at=started_at,
        finished_at=datetime.now(UTC),
        progress=progress,
    )
    publish(results, folder, base_model=config.trainer.model)
    return results


@contextmanager
def _only_attempt(folder: RunFolder) -> Iterator[None]:
    """Hold the run's lock, which the system takes back from a process that dies. Raises RunInUse."""
    with (folder.path / "attempt.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunInUse(
                f"run id {folder.run_id}: another attempt holds {lock.name}. Wait for it or stop its job"
            ) from error
        yield


def _train(
    config: JobConfig, paths: RunPaths, folder: RunFolder, before_work: Callable[[], None]
) -> Progress:
    prepare_environment(config.trainer)
    write_rows(config, paths)
    start = _starting_point(config, folder)
    paths.checkpoints.mkdir(parents=True, exist_ok=True)
    step = prepare_resume(paths.checkpoints, world_size=config.trainer.gpus)
    progress = progress_at(paths.progress, step=step, fresh=Progress(step=0, evaluations=(), steps=()))
    skyrl = skyrl_config(
        config,
        model=start.model,
        paths=paths,
        allowed_tokens=start.allowed_tokens,
        evaluate_first=lacks_evaluation(progress, config),
    )
    write_atomically(folder.path / "skyrl_config.yaml", as_text(skyrl))
    _connect(config, skyrl)
    try:
        before_work()
        passed = run_self_test(folder.shared, _expectation(config.trainer))
        task = train_task.options(runtime_env={"env_vars": dict(passed.environment)})
        _wait(task.remote(config, skyrl, paths, progress, folder.run_id))
    except RayError as error:
        raise TrainingFailed(
            f"training ended with an error: {error}\nStart the same run id again to resume"
        ) from error
    finally:
        ray.shutdown()
    return Progress.model_validate_json(paths.progress.read_text())


def _wait(task: ray.ObjectRef[None]) -> None:
    """Until the task has ended; raises what it raised.

    Sleeps in Python: what a signal handler raises inside Ray's compiled `get` can come out as a SystemError.
    """
    while not ray.wait([task], timeout=0)[0]:
        time.sleep(POLL_SECONDS)
    ray.get(task)


def lacks_evaluation(progress: Progress, config: JobConfig) -> bool:
    """Whether an evaluation is due at this step and was not made.

    SkyRL saves before it evaluates, so an attempt that ended in between leaves a checkpoint ungraded.
    """
    step = progress.step
    due = step % config.evaluation.every_steps == 0 or step == config.trainer.grpo.steps
    return due and all(evaluation.step != step for evaluation in progress.evaluations)


def write_rows(config: JobConfig, paths: RunPaths) -> None:
    """Write the rows of the run: as many training mazes as its steps need, and the fixed evaluation mazes."""
    grpo = config.trainer.grpo
    write_training_rows(
        paths.training_rows,
        rows=grpo.steps * grpo.mazes_per_step,
        size=config.maze.size,
        seed=config.seed,
        weights=config.reward,
        exclude=mazes_never_trained_on(config.maze.size),
    )
    write_evaluation_rows(
        paths.evaluation_rows, mazes=config.evaluation_mazes(), source=EVALUATION_SET, weights=config.reward
    )


def _starting_point(config: JobConfig, folder: RunFolder) -> StartingPoint:
    warm_start = config.trainer.warm_start
    if warm_start is None:
        assert config.trainer.model is not None  # the config has checked that one of the two is there
        return StartingPoint(model=config.trainer.model, allowed_tokens=None)
    from training.local.shrinking import Shrinking  # noqa: PLC0415
    from training.local.warm_start import WarmStart, allowed_tokens, ensure_checkpoint  # noqa: PLC0415

    settings = WarmStart(
        maze_size=config.maze.size,
        seed=config.seed,
        # vLLM prepares pictures with torchvision, which has no box filter.
        shrinking=Shrinking.BILINEAR if config.trainer.hardware is Hardware.GPU else Shrinking.BOX,
        **warm_start.model_dump(),
    )
    checkpoint = ensure_checkpoint(settings, cache=folder.shared / "cache")
    return StartingPoint(model=str(checkpoint), allowed_tokens=allowed_tokens(checkpoint))


def _connect(config: JobConfig, skyrl: Any) -> None:
    """Join the cluster of RAY_ADDRESS; without one, start a Ray of this host's GPUs, or of logical ones."""
    if "RAY_ADDRESS" not in os.environ and config.trainer.hardware is Hardware.CPU:
        resources = {"CPU": config.trainer.gpus + 2, "GPU": config.trainer.gpus}
        os.environ["RAY_OVERRIDE_RESOURCES"] = json.dumps(resources)
    initialize_ray(skyrl)


def _expectation(trainer: TrainerConfig) -> Expectation:
    """A checkpoint more than are kept: the new one is whole before an old one goes."""
    on_gpu = trainer.hardware is Hardware.GPU
    return Expectation(
        gpus_per_node=trainer.gpus_per_node if on_gpu else 0,
        nodes=trainer.nodes,
        free_shared_gib=(trainer.checkpoints_kept + 1) * trainer.checkpoint_gib,
    )


@ray.remote(num_cpus=1, max_retries=0)
def train_task(config: JobConfig, skyrl: Any, paths: RunPaths, progress: Progress, run_id: str) -> None:
    """SkyRL's training loop. Never retried by Ray: see `training.entry`."""
    callbacks = [
        StopWhenDiverged(),
        MarkCheckpoints(world_size=config.trainer.gpus),
        RecordProgress(path=paths.progress, config=config, progress=progress),
        TelemetryCallback(Telemetry(run_id=run_id, evaluation_mazes=config.evaluation.mazes)),
    ]
    if config.trainer.hardware is Hardware.GPU:
        render_once = config.trainer.engine.render_once
        MazeExperiment(skyrl, callbacks=callbacks, render_once=render_once).run()
        return
    from training.local.experiment import LocalExperiment  # noqa: PLC0415

    LocalExperiment(skyrl, callbacks=callbacks, timeout_seconds=config.trainer.engine_silence_seconds).run()
