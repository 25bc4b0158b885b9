"""Drills: what ends a run on a cluster, done to SkyRL's own trainer on a local Ray.

Each drill does its harm after the first checkpoint. The run must then end with an error by itself within its
deadline, and the same command must resume from a checkpoint and finish. `make drills` runs them; `make test`
leaves them out, since each starts the trainer twice.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from training.checkpoints import MARKER

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 900
STEPS = 6
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TRAINING_", "SHARED_"))},
    "OMP_NUM_THREADS": "1",
    # Ray refuses socket paths over 107 characters, which pytest's temporary folders can reach.
    "RAY_TMPDIR": "/tmp",
}


@dataclass(frozen=True)
class Run:
    """A run as its user starts it."""

    shared: Path

    @property
    def folder(self) -> Path:
        return self.shared / "runs" / "drill"

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "training", "train", "--run-id", "drill", "--profile", "smoke"]
        settings = [f"trainer.grpo.steps={STEPS}", "trainer.engine_silence_seconds=30"]
        return subprocess.Popen(
            [*command, "--shared-dir", str(self.shared), *(f"--set={setting}" for setting in settings)],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def checkpoint(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"global_step_{step}"

    def progress(self) -> dict[str, list[dict[str, float]]]:
        return json.loads((self.folder / "progress.json").read_text())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All drills share the warm start."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def run(cache: Path, tmp_path: Path) -> Run:
    (cache / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache").symlink_to(cache / "cache")
    return Run(tmp_path)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def members(process: subprocess.Popen[str], title: str) -> list[psutil.Process]:
    """The Ray processes of a run whose title starts like this."""
    family = psutil.Process(process.pid).children(recursive=True)
    return [member for member in family if " ".join(member.cmdline()).startswith(title)]


@contextmanager
def started(run: Run) -> Iterator[subprocess.Popen[str]]:
    """A run past its first checkpoint; nothing of it is left afterwards."""
    process = run.start()
    family: list[psutil.Process] = []
    try:
        wait_for(run.checkpoint(1) / MARKER, process)
        family = psutil.Process(process.pid).children(recursive=True)
        yield process
    finally:
        process.kill()
        for member in family:
            if member.is_running():
                member.kill()
        psutil.wait_procs(family, timeout=30)


def kill(title: str) -> Callable[[subprocess.Popen[str]], None]:
    def harm(process: subprocess.Popen[str]) -> None:
        members(process, title)[0].kill()

    return harm


def freeze(title: str) -> Callable[[subprocess.Popen[str]], None]:
    def harm(process: subprocess.Popen[str]) -> None:
        members(process, title)[0].suspend()

    return harm


DRILLS = [
    # (name, what is done, seconds within which the run must have ended)
    pytest.param(kill("ray::RolloutActor"), 60, id="rollout-engine-killed"),
    pytest.param(kill("ray::CpuPolicyWorkerBase"), 180, id="policy-rank-killed"),
    pytest.param(kill("ray::train_task"), 60, id="training-task-killed"),
    pytest.param(freeze("ray::RolloutActor"), 120, id="rollout-engine-hung"),
    pytest.param(lambda process: process.kill(), 60, id="driver-killed"),
]


@pytest.mark.parametrize(("harm", "deadline_seconds"), DRILLS)
def test_a_harmed_run_ends_by_itself_and_its_command_resumes_it(
    run: Run, harm: Callable[[subprocess.Popen[str]], None], deadline_seconds: float
) -> None:
    with started(run) as process:
        harm(process)
        harmed_at = time.monotonic()
        _, stderr = process.communicate(timeout=deadline_seconds)
        print(f"ended {time.monotonic() - harmed_at:.0f} s after the harm")
    assert process.returncode in {1, -signal.SIGKILL}, stderr
    assert not (run.folder / "results.json").exists()
    _assert_resumes_and_finishes(run)


def test_a_truncated_newest_checkpoint_costs_one_interval(run: Run) -> None:
    with started(run) as process:
        wait_for(run.checkpoint(3) / MARKER, process)
        process.kill()
    newest = max(run.folder.glob("checkpoints/global_step_*"), key=lambda p: int(p.name.rsplit("_", 1)[1]))
    [shard] = newest.glob("policy/model_*_rank_1.pt")
    os.truncate(shard, shard.stat().st_size // 2)
    (newest.parent / "latest_ckpt_global_step.txt").write_text("")
    resumed_from = _assert_resumes_and_finishes(run)
    assert resumed_from == int(newest.name.rsplit("_", 1)[1]) - 1


def _assert_resumes_and_finishes(run: Run) -> int:
    second = run.start()
    _, stderr = second.communicate(timeout=START_SECONDS)
    assert second.returncode == 0, stderr
    progress = run.progress()
    [resumed_from] = progress["resumed_from"]
    assert resumed_from >= 1
    assert [step["step"] for step in progress["steps"]] == list(range(1, STEPS + 1))
    assert (run.folder / "results.json").exists()
    return int(resumed_from)
