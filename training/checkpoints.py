"""Which of SkyRL's checkpoints a new attempt may trust, and the file by which SkyRL finds it.

SkyRL writes `<root>/global_step_N/...` file by file and then, not atomically, `latest_ckpt_global_step.txt`.
A crash can leave a folder half written, a file cut short by a full disk, or the text file empty, which ends
every later start with `invalid literal for int()`. So a checkpoint counts only with our marker, written last
and atomically: it names every file and its size. Before SkyRL looks, `prepare_resume` removes what does not
count and points the text file at the newest that does.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

MARKER = "complete.json"
LATEST = "latest_ckpt_global_step.txt"
KEPT_AT_LEAST = 2
"""While a checkpoint is written, the one before is all a run has."""
_STEP_FOLDER = re.compile(r"global_step_(\d+)")


class IncompleteCheckpointError(Exception):
    """SkyRL reported a checkpoint as saved, but files of it are missing."""


class WorldSizeError(Exception):
    """The checkpoint was written by another number of GPUs than the job has."""


def mark_complete(folder: Path, *, world_size: int) -> None:
    """Say that SkyRL has finished writing this checkpoint. Raises IncompleteCheckpointError if it has not."""
    missing = sorted(name for name in _needed_files(world_size) if not (folder / name).is_file())
    if missing:
        raise IncompleteCheckpointError(f"{folder} lacks {', '.join(missing)}: not marked as complete")
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(files)}
    write_durably(folder / MARKER, json.dumps({"world_size": world_size, "files": sizes}, indent=1))


def prepare_resume(root: Path, *, world_size: int) -> int:
    """Leave SkyRL nothing to resume from but the newest complete checkpoint; its step, or 0 if there is none.

    Raises WorldSizeError if that checkpoint has another number of shards than the job has ranks.
    """
    resumable = newest_complete_step(root)
    for step, folder in _step_folders(root):
        if step > resumable:
            logger.error("checkpoint %s cannot be used and is removed: %s", folder, fault_of(folder))
            shutil.rmtree(folder)
    if resumable:
        _check_world_size(root / f"global_step_{resumable}", world_size)
        write_durably(root / LATEST, str(resumable))
        logger.info("resuming from step %d, the newest complete checkpoint", resumable)
    else:
        (root / LATEST).unlink(missing_ok=True)
        logger.info("no complete checkpoint in %s: starting from step 0", root)
    return resumable


def newest_complete_step(root: Path) -> int:
    """The step a new attempt would resume from; 0 if there is none. Changes nothing."""
    return max((step for step, folder in _step_folders(root) if fault_of(folder) is None), default=0)


def fault_of(folder: Path) -> str | None:
    """Why a checkpoint cannot be resumed from; None if it can."""
    marker = folder / MARKER
    if not marker.is_file():
        return "its marker is missing, so it was never finished"
    expected: dict[str, int] = json.loads(marker.read_text())["files"]
    for name, size in expected.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes of {size}"
    return None


def write_durably(path: Path, text: str) -> None:
    """Readers see the old content or the new, also after a power cut."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _needed_files(world_size: int) -> Iterator[str]:
    yield from ("trainer_state.pt", "data.pt", "policy/fsdp_config.json")
    for rank in range(world_size):
        for kind in ("model", "optim", "extra_state"):
            yield f"policy/{kind}_world_size_{world_size}_rank_{rank}.pt"


def _step_folders(root: Path) -> Iterator[tuple[int, Path]]:
    for folder in list(root.glob("global_step_*")):
        if match := _STEP_FOLDER.fullmatch(folder.name):
            yield int(match[1]), folder


def _check_world_size(folder: Path, world_size: int) -> None:
    written: int = json.loads((folder / MARKER).read_text())["world_size"]
    if written != world_size:
        raise WorldSizeError(
            f"{folder} was written by {written} GPUs and resumes on as many only, the job has {world_size}. "
            f"Give the job {written} GPUs, or start a new run id from the folder's policy/lora_adapter"
        )
