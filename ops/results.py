"""The part of a run's results.json that the commands read; the training code writes it and may add to it."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ops.output import OperationError


class ResultsError(OperationError):
    """results.json is missing or is not what a finished run writes."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Interval(_Part):
    """95 % confidence, both ends in 0..1."""

    low: float
    high: float


class Evaluation(_Part):
    """The fixed mazes once through."""

    solved: int
    total: int
    interval_95: Interval

    def __str__(self) -> str:
        share = self.solved / self.total
        return (
            f"{self.solved}/{self.total} solved ({share:.1%}, 95 % interval "
            f"{self.interval_95.low:.1%} to {self.interval_95.high:.1%})"
        )


class Headline(_Part):
    """The fixed mazes before and after training."""

    before: Evaluation
    after: Evaluation


class Results(_Part):
    run_id: str
    evaluation: Headline


def read_results(path: Path) -> Results:
    """Raises ResultsError with the path and what is wrong."""
    try:
        return Results.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ResultsError(f"{path} is not a run's results: {error}") from error
