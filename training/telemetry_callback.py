"""SkyRL's events as telemetry."""
# ruff: noqa: ARG002 (every event has the same three arguments)

from typing import Any

from skyrl.train.utils.callbacks import TrainingCallback

from training.telemetry import Telemetry


class TelemetryCallback(TrainingCallback):  # type: ignore[misc]  # skyrl has no types
    """Exports what SkyRL is about to log. It changes nothing: an exception here would end the run."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._telemetry.started()

    def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._telemetry.logged(callback_input.logs | {"trainer/global_step": callback_input.global_step})

    def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._telemetry.saved()
