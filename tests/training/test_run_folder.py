"""A run's folder stays readable whatever ends the run, and belongs to one config."""

import pytest

from training.config import load_config
from training.faults import ConfigError
from training.results import Progress, WarmStart
from training.run_folder import RunFolder

CONFIG = load_config("smoke")


def progress(step):
    warm_start = WarmStart(steps=5, solved_share=0.5, from_cache=False)
    return Progress(step=step, warm_start=warm_start, evaluations=(), steps=())


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(shared=tmp_path, run_id="run")
    folder.claim(CONFIG)
    return folder


def save(folder, step):
    folder.save_checkpoint(progress(step), save_weights=lambda path: path.write_bytes(b"weights"))


def test_the_newest_checkpoint_is_the_highest_step_and_two_are_kept(folder):
    for step in (5, 10, 15):
        save(folder, step)
    newest = folder.newest_checkpoint()
    assert newest is not None
    assert newest.progress.step == 15
    assert newest.weights.read_bytes() == b"weights"
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step_10", "step_15"]


def test_a_checkpoint_that_was_being_written_does_not_count(folder):
    save(folder, 5)

    def crash(path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.save_checkpoint(progress(10), save_weights=crash)
    assert folder.newest_checkpoint().progress.step == 5
    save(folder, 10)
    assert folder.newest_checkpoint().progress.step == 10


def test_without_a_checkpoint_there_is_none(folder):
    assert folder.newest_checkpoint() is None
    assert folder.finished() is None


def test_a_folder_is_refused_to_another_config_and_given_to_the_same(folder):
    folder.claim(load_config("smoke"))
    with pytest.raises(ConfigError, match="belongs to a run with another config"):
        folder.claim(load_config("smoke", overrides={"seed": 7}))


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", "Run", "-dash", "x" * 64])
def test_run_ids_that_are_no_folder_names_are_refused(tmp_path, run_id):
    with pytest.raises(ConfigError, match="Give a name as maze-grpo-1"):
        RunFolder(shared=tmp_path, run_id=run_id)
