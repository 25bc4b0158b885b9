"""A run resumes from the newest checkpoint that is whole, whatever a crash has left behind."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from skyrl.train.utils.trainer_utils import validate_consistency_for_latest_checkpoint
from torchdata.stateful_dataloader import StatefulDataLoader

from training.checkpoints import (
    LATEST,
    MARKER,
    IncompleteCheckpointError,
    WorldSizeError,
    fault_of,
    mark_complete,
    prepare_resume,
)

RANKS = 2


def write_checkpoint(root: Path, step: int, *, marked: bool = True) -> Path:
    """The files that SkyRL writes for two ranks, with stand-in contents."""
    folder = root / f"global_step_{step}"
    (folder / "policy").mkdir(parents=True)
    names = ["trainer_state.pt", "data.pt", "policy/fsdp_config.json"]
    for rank in range(RANKS):
        names += [f"policy/{k}_world_size_{RANKS}_rank_{rank}.pt" for k in ("model", "optim", "extra_state")]
    for name in names:
        (folder / name).write_bytes(b"x" * 100)
    (root / LATEST).write_text(str(step))
    if marked:
        mark_complete(folder, world_size=RANKS)
    return folder


def truncate(folder: Path) -> None:
    os.truncate(folder / f"policy/model_world_size_{RANKS}_rank_1.pt", 40)


def lose_a_shard(folder: Path) -> None:
    (folder / f"policy/optim_world_size_{RANKS}_rank_0.pt").unlink()


def lose_the_marker(folder: Path) -> None:
    (folder / MARKER).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "model_world_size_2_rank_1.pt has 40 bytes of 100"),
        (lose_a_shard, "optim_world_size_2_rank_0.pt is missing"),
        (lose_the_marker, "never finished"),
    ],
)
def test_a_damaged_newest_checkpoint_makes_resume_fall_back_to_the_one_before_and_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], message: str
) -> None:
    write_checkpoint(tmp_path, 20)
    damaged = write_checkpoint(tmp_path, 40)
    damage(damaged)
    with caplog.at_level(logging.ERROR):
        assert prepare_resume(tmp_path, world_size=RANKS) == 20
    assert message in caplog.text
    assert (tmp_path / LATEST).read_text() == "20"
    assert not damaged.exists()


@pytest.mark.parametrize("content", ["", "40", "not a number"])
def test_the_text_file_is_repaired_from_the_folders(tmp_path: Path, content: str) -> None:
    write_checkpoint(tmp_path, 20)
    (tmp_path / LATEST).write_text(content)
    assert prepare_resume(tmp_path, world_size=RANKS) == 20
    assert (tmp_path / LATEST).read_text() == "20"


def test_what_is_left_passes_skyrls_own_check_after_the_interval_was_lowered(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 20)
    write_checkpoint(tmp_path, 40, marked=False)
    (tmp_path / LATEST).write_text("20")
    latest, newest, interval = str(tmp_path / LATEST), str(tmp_path / "global_step_20"), 10
    with pytest.raises(ValueError, match="Inconsistent checkpoint folder"):
        validate_consistency_for_latest_checkpoint(str(tmp_path), 20, newest, latest, interval)
    prepare_resume(tmp_path, world_size=RANKS)
    validate_consistency_for_latest_checkpoint(str(tmp_path), 20, newest, latest, interval)


def test_a_run_without_a_whole_checkpoint_starts_from_the_beginning(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 20, marked=False)
    assert prepare_resume(tmp_path, world_size=RANKS) == 0
    assert not (tmp_path / LATEST).exists()


def test_older_checkpoints_are_left_alone(tmp_path: Path) -> None:
    older = write_checkpoint(tmp_path, 20)
    write_checkpoint(tmp_path, 40)
    assert prepare_resume(tmp_path, world_size=RANKS) == 40
    assert fault_of(older) is None


def test_a_checkpoint_of_another_number_of_gpus_is_refused_with_the_numbers(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 20)
    with pytest.raises(WorldSizeError, match=r"written by 2 GPUs .* the job has 6"):
        prepare_resume(tmp_path, world_size=6)
    assert (tmp_path / "global_step_20").exists()


def test_a_checkpoint_with_a_missing_rank_is_not_marked(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 20, marked=False)
    with pytest.raises(IncompleteCheckpointError, match="world_size_4_rank_3"):
        mark_complete(folder, world_size=4)
    assert not (folder / MARKER).exists()


def loader(rows: int) -> StatefulDataLoader[int]:
    """The loader as SkyRL builds it."""
    return StatefulDataLoader(
        list(range(rows)),
        batch_size=2,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(1),
    )


def batches_after_resume(rows: int, batches_done: int) -> int:
    first = loader(rows)
    iterator = iter(first)
    for _ in range(batches_done):
        next(iterator)
    resumed = loader(rows)
    resumed.load_state_dict(first.state_dict())
    return len(list(resumed))


def test_a_loader_resumed_at_an_epochs_end_is_empty_so_the_run_is_one_epoch() -> None:
    """The trap and the way round it: two epochs of 2 batches lose one on resume, one of 4 loses none."""
    assert batches_after_resume(rows=4, batches_done=2) == 0
    assert batches_after_resume(rows=8, batches_done=2) == 2


def test_within_an_epoch_the_order_of_rows_survives_a_resume() -> None:
    whole = [batch.tolist() for batch in loader(12)]
    first = loader(12)
    iterator = iter(first)
    next(iterator)
    resumed = loader(12)
    resumed.load_state_dict(first.state_dict())
    assert [batch.tolist() for batch in resumed] == whole[1:]
