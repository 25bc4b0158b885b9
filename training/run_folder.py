"""The folder of one run on the shared file system: what is in it, and how it stays readable after a crash.

<shared>/runs/<run_id>/config.json        the resolved config; another config may not use the folder
<shared>/runs/<run_id>/checkpoints/step_N complete or absent: written beside, then renamed
<shared>/runs/<run_id>/results.json       only when the run has finished
<shared>/runs/<run_id>/report.html
    <shared>/runs/<run_id>/model_card.md
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from training.config import JobConfig
from training.faults import ConfigError, Fault
from training.results import Progress, Results

CHECKPOINTS_KEPT = 2
_RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_STEP_FOLDER = re.compile(r"step_(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    progress: Progress

    @property
    def weights(self) -> Path:
        """The learner's file."""
        return self.folder / "learner.pt"


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run."""

    shared: Path
    run_id: str

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run_id):
            fault = Fault(
                field="run_id",
                value=self.run_id,
                rule="is not a folder name of lower case letters, digits, dots, dashes and underscores",
                remedy="Give a name as maze-grpo-1.",
            )
            raise ConfigError([fault])

    @property
    def path(self) -> Path:
        """The folder."""
        return self.shared / "runs" / self.run_id

    @property
    def results(self) -> Path:
        """Exists only when the run has finished."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The report for people."""
        return self.path / "report.html"

    @property
    def model_card(self) -> Path:
        """The card that travels with the trained weights."""
        return self.path / "model_card.md"

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.path / "checkpoints"

    def claim(self, config: JobConfig) -> None:
        """Make the folder this config's own. Raises ConfigError when another config has used it."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        file = self.path / "config.json"
        if not file.exists():
            write_atomically(file, config.model_dump_json(indent=2))
            return
        before = JobConfig.model_validate_json(file.read_text(encoding="utf-8"))
        if before != config:
            fault = Fault(
                field="run_id",
                value=self.run_id,
                rule=f"belongs to a run with another config ({file})",
                remedy="Give another run id, or the config of that run to resume it.",
            )
            raise ConfigError([fault])

    def finished(self) -> Results | None:
        """The results, if the run has finished."""
        if not self.results.exists():
            return None
        return Results.model_validate_json(self.results.read_text(encoding="utf-8"))

    def newest_checkpoint(self) -> Checkpoint | None:
        """The complete checkpoint with the highest step."""
        steps = self._checkpoint_steps()
        if not steps:
            return None
        folder = self._checkpoint(max(steps))
        return Checkpoint(
            folder, Progress.model_validate_json((folder / "progress.json").read_text(encoding="utf-8"))
        )

    def save_checkpoint(self, progress: Progress, *, save_weights: Callable[[Path], None]) -> None:
        """Write a checkpoint beside its place, then rename it there; older ones than the newest two go."""
        part = self.checkpoints / f".step_{progress.step}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        save_weights(part / "learner.pt")
        (part / "progress.json").write_text(progress.model_dump_json(), encoding="utf-8")
        place = self._checkpoint(progress.step)
        shutil.rmtree(place, ignore_errors=True)
        part.rename(place)
        for step in sorted(self._checkpoint_steps())[:-CHECKPOINTS_KEPT]:
            shutil.rmtree(self._checkpoint(step))

    def _checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step_{step}"

    def _checkpoint_steps(self) -> list[int]:
        matches = (_STEP_FOLDER.fullmatch(folder.name) for folder in self.checkpoints.glob("step_*"))
        return [int(match[1]) for match in matches if match]


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old content or the new, never a part."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
