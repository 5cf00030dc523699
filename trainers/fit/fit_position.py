"""Which call of ``fit`` this is, and where in it training stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FitCall:
    """What the script asked for."""

    model: Any
    callbacks: list[Any]
    """The script's own."""
    epochs: int
    data: Any = None
    """The training data as ``fit`` was given them."""
    validation_data: Any = None


class FitPosition:
    """Epoch and step of one ``fit``, and what its last step returned."""

    def __init__(self) -> None:
        self._epoch = 0
        self._next_step = 0
        self._step_in_epoch = 0
        self._logs: Any = {}

    @property
    def epoch(self) -> int:
        """From 0."""
        return self._epoch

    @property
    def next_step(self) -> int:
        """Keras' number of the next step of this epoch."""
        return self._next_step

    @property
    def step_in_epoch(self) -> int:
        """Steps of this epoch that are done, those passed over among them."""
        return self._step_in_epoch

    @property
    def logs(self) -> Any:
        """What the last step returned."""
        return self._logs

    def begin_epoch(self, epoch: int) -> None:
        """No step of ``epoch`` is done."""
        self._epoch, self._next_step, self._step_in_epoch = epoch, 0, 0

    def ran(self, steps: int, *, logs: Any) -> None:
        """So many steps are done, and returned ``logs``."""
        self._step_in_epoch += steps
        self._logs = logs

    def passed_over(self, steps: int) -> None:
        """So many steps were left out."""
        self._step_in_epoch += steps

    def comes_to(self, next_step: int) -> None:
        """``next_step`` is what Keras does next."""
        self._next_step = next_step

    def log(self, values: Mapping[str, Any]) -> None:
        """A loop of the script's own tells of its step."""
        self._logs = {**(self._logs or {}), **values}

    def state(self) -> dict[str, Any]:
        """To save, and for ``resume``."""
        return {
            "epoch": self._epoch,
            "next_step": self._next_step,
            "step_in_epoch": self._step_in_epoch,
            "logs": self._logs,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Be where ``state`` was taken."""
        self._epoch, self._next_step = state["epoch"], state["next_step"]
        self._step_in_epoch, self._logs = state["step_in_epoch"], state["logs"]
