"""The folder of one run on the shared file system: what is in it, and how it stays readable after a crash.

<shared>/runs/<run_id>/config.json     the resolved config; another config may not use the folder
<shared>/runs/<run_id>/progress.json   what has been measured so far, step by step
<shared>/runs/<run_id>/checkpoints/    SkyRL's, and which of them count: see training.checkpoints
<shared>/runs/<run_id>/results.json    only when the run has finished
<shared>/runs/<run_id>/report.html
<shared>/runs/<run_id>/model_card.md
"""

import re
from dataclasses import dataclass
from pathlib import Path

from training.config import JobConfig
from training.faults import ConfigError, Fault
from training.results import Results

_RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


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
        self.path.mkdir(parents=True, exist_ok=True)
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


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old content or the new, never a part."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
