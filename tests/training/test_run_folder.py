"""A run's folder stays readable whatever ends the run, and belongs to one config."""

import pytest

from training.config import load_config
from training.faults import ConfigError
from training.run_folder import RunFolder

CONFIG = load_config("smoke")


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(shared=tmp_path, run_id="run")
    folder.claim(CONFIG)
    return folder


def test_without_results_a_run_has_not_finished(folder):
    assert folder.finished() is None


def test_a_folder_is_refused_to_another_config_and_given_to_the_same(folder):
    folder.claim(load_config("smoke"))
    with pytest.raises(ConfigError, match="belongs to a run with another config"):
        folder.claim(load_config("smoke", overrides={"seed": 7}))


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", "Run", "-dash", "x" * 64])
def test_run_ids_that_are_no_folder_names_are_refused(tmp_path, run_id):
    with pytest.raises(ConfigError, match="Give a name as maze-grpo-1"):
        RunFolder(shared=tmp_path, run_id=run_id)
