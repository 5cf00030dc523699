"""What a step of an attempt's first ``fit`` needs of memory, told twice: before it and after.

Variables are counted, and the allocator's peak is the one that is read for the page anyway:
nothing is tried, reset or run for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import keras

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.step_needs import StepNeeds
from trainers.backends import computing_device
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.fit.telemetry import counted_variables, optimizer_slots
from trainers.process.attempt_reporting import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSubject:
    """What a ``fit`` trains, and on what."""

    fit: int
    """Number of the call, from 0."""
    model: Any
    source: DataSource


class FirstFitNeeds:
    """Of one call of ``fit``: silent where another told before it in this attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._subject: FitSubject | None = None
        self._limit: Callable[[], int | None] = lambda: None

    @property
    def waits(self) -> bool:
        """Whether the first steps are still to be told of."""
        return self._subject is not None

    def begin(
        self, subject: FitSubject, *, limit: Callable[[], int | None], slices: int
    ) -> None:
        """The first step is next. ``limit``: bytes that there are at most, if known."""
        told = self._attempt.training.needs_told
        if told or backend.fit.replicas_of(subject.model) > 1:
            return
        if limit() is None and _on_cpu():
            return
        self._subject, self._limit = subject, limit
        if subject.model.built:
            self._say(self._counted(slices, made=False))

    def stepped(self, reading: Figures | None, *, slices: int) -> None:
        """The first few steps are made. ``reading``: the allocator since; None: it keeps no
        figures."""
        if self._subject is None:
            return
        needs = self._counted(slices, made=True)
        if reading is not None:
            needs = replace(
                needs,
                in_use_bytes=reading.in_use,
                peak_bytes=reading.peak if reading.peak_is_known else None,
                limit_bytes=needs.limit_bytes or reading.limit,
            )
        self._say(needs)
        self._attempt.training.needs_told = True
        self._subject = None

    def let_go(self) -> None:
        """The ``fit`` is over: its model and data may be dropped."""
        self._subject = None

    def _say(self, needs: StepNeeds) -> None:
        self._attempt.say(RecordKind.STEP_NEEDS, **needs.to_json())

    def _counted(self, slices: int, *, made: bool) -> StepNeeds:
        """``made``: a step was, and all variables with it."""
        assert self._subject is not None  # noqa: S101  # asked before
        model, source = self._subject.model, self._subject.source
        found = counted_variables.counted(model)
        optimizer = counted_variables.optimizer_of(model)
        state: int | None = found.optimizer_bytes
        if not made:
            state = _state_ahead(model, optimizer, found)
        batch = source.batch
        return StepNeeds(
            fit=self._subject.fit,
            batch=batch,
            slices=slices,
            parameters=found.parameters,
            trained=found.trained,
            parameter_bytes=found.parameter_bytes,
            trained_bytes=found.trained_bytes,
            largest_bytes=found.largest_bytes,
            optimizer_bytes=state,
            optimizer=optimizer,
            other_bytes=found.other_bytes,
            limit_bytes=self._limit(),
            backend=keras.backend.backend(),
            array_bytes=source.array_bytes,
            batch_bytes=backend.recovery.batch_bytes(source.element_spec, batch),
            alike=not source.lengths_vary,
        )


def _on_cpu() -> bool:
    return backend.fit.computing_device().kind == computing_device.CPU


def _state_ahead(
    model: Any, optimizer: str, found: counted_variables.CountedVariables
) -> int | None:
    """Bytes of the optimizer's variables once a step is made; None: not known."""
    if not optimizer:
        return None
    if model.optimizer.built:
        return found.optimizer_bytes
    slots = optimizer_slots.slots_of(model.optimizer)
    return (
        None if slots is None else found.optimizer_bytes + slots * found.trained_bytes
    )
