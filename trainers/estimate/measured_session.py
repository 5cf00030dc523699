"""A session whose first steps are measured: for an estimate, in the place of training."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from typing_extensions import override

from trainers.estimate.loop_memory import LoopMeasurement, LoopParts
from trainers.process.attempt_reporting import Attempt
from trainers.session import Run, build_optimizers, has_variables


class MeasuredSession(Run):
    """Iterates as without a supervisor, and ends the process once enough is measured."""

    def __init__(self, attempt: Attempt, state: Mapping[str, Any]) -> None:
        """``state``: as ``session`` was given it."""
        super().__init__()
        self._attempt = attempt
        holders = {name: one for name, one in state.items() if has_variables(one)}
        build_optimizers(holders)
        self._parts = LoopParts()
        for one in holders.values():
            self._parts.add(one)
        self._measured: LoopMeasurement | None = None

    @override
    def batches(self, data: Any) -> Iterator[Any]:
        """The batches of this epoch, a step each."""
        if self._measured is None:
            self._attempt.training.measured = True
            self._measured = LoopMeasurement(self._attempt, self._parts)
        for batch in super().batches(data):
            self._measured.drew(batch)
            yield batch
            self._measured.stepped()

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The loop was shorter than a measurement: what there was of it counts."""
        if error is None and self._measured is not None:
            self._measured.over()
