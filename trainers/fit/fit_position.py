"""A call of ``fit``, and the position of training in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
    validates: bool = False
    """Whether it does, on these or on a part of the training data."""
    validation_freq: Any = 1
    """After how many epochs, or after which."""


@dataclass(slots=True)
class FitPosition:
    """Epoch and step of one ``fit``, and what its last step returned."""

    epoch: int = 0
    """From 0."""
    next_step: int = 0
    """Keras' number of the next step of this epoch."""
    step_in_epoch: int = 0
    """Steps of this epoch that are done, those passed over among them."""
    logs: Any = field(default_factory=dict[str, Any])
    """What the last step returned."""
    glances: int = 0
    """Batches that were drawn before it began, to build the model by."""

    def begin_epoch(self, epoch: int) -> None:
        """No step of ``epoch`` is done."""
        self.epoch, self.next_step, self.step_in_epoch = epoch, 0, 0

    def passed_over(self, steps: int) -> None:
        """So many steps were left out."""
        self.step_in_epoch += steps

    def comes_to(self, next_step: int) -> None:
        """``next_step`` is what Keras does next."""
        self.next_step = next_step

    def log(self, values: Mapping[str, Any]) -> None:
        """A loop of the script's own tells of its step."""
        self.logs = {**(self.logs or {}), **values}

    def state(self) -> dict[str, Any]:
        """To save, and for ``resume``."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Be where ``state`` was taken."""
        for one in fields(self):
            if one.name in state:  # not in a snapshot of an earlier version
                setattr(self, one.name, state[one.name])
