"""TensorFlow's allocator at step boundaries, on the page; and its map, for who asks.

The map tells best (``native_ops``); where there is none, the allocator's own counts; and
without the operations what TensorFlow's ``get_memory_info`` counts, which knows nothing of
free blocks. The page says which of them it was.
"""

import contextlib
import weakref
from collections.abc import Callable

import tensorflow as tf
from typing_extensions import override

from supervisor.wire.messages.memory_answer import Variable
from supervisor.wire.page import MemorySource
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.memory.paced_probe import PacedProbe
from trainers.backends.tensorflow.allocator import (
    map_answer,
    memory_owners,
    native_ops,
    peak_readings,
)
from trainers.backends.tensorflow.allocator.once_per_run import memo, once
from trainers.process.attempt_reporting import Attempt
from trainers.process.training_progress import RunningFit

GLANCE_SECONDS = 2e-5
"""A glance takes no longer: it takes 2 us."""


class _TensorFlowReader:
    """The allocator of the first GPU, else of the CPU."""

    glance_seconds = GLANCE_SECONDS

    def __init__(self, native: native_ops.Native) -> None:
        self._native = native
        self._device: str | None = None

    def begin(self) -> bool:
        """The operations are asked for where there is anything to see."""
        peak_readings.reset_peak()
        if peak_readings.read() is None:
            return False
        self._native.ask()
        self._device = peak_readings.device()
        return True

    def read(self) -> Figures | None:
        """By the best source there is."""
        try:
            ops = self._native.ops()
            return _estimate() if ops is None else ops.figures()
        except (tf.errors.OpError, RuntimeError):
            return None

    def counts(self) -> tuple[int, int] | None:
        """By ``get_memory_info``."""
        if self._device is None:
            return None
        counted = peak_readings.counts(self._device)
        return counted.current_bytes, counted.peak_bytes


class AllocatorProbe(PacedProbe):
    """Reads the allocator for the page, and answers who asks for its map."""

    def __init__(self, attempt: Attempt, *, limit_bytes: int | None) -> None:
        """``limit_bytes``: what the supervisor set, if it did."""
        told = once(memo(attempt.paths), attempt.notice)
        self._native = native_ops.of_process(told)
        reader = _TensorFlowReader(self._native)
        super().__init__(attempt, reader, limit_bytes=limit_bytes)
        self._run: Callable[[], RunningFit | None] = lambda: None
        self._variables: list[Variable] | None = None

    @override
    def begin(self) -> None:
        """Memory is that of steps from here on."""
        super().begin()
        if self._attempt.training.running is not None:
            self._run = weakref.ref(self._attempt.training.running)
        self._variables = None
        self._attempt.end.say(self._last_words)

    @override
    def look(self, *, step: int) -> Figures | None:
        """Read and publish, and answer; None: this allocator keeps no figures."""
        self._native.ops()  # loaded, if it is built by now: that is no part of a reading
        reading = super().look(step=step)
        if map_answer.wanted(self._attempt.paths):
            map_answer.give(self._attempt, self._native.ops(), self._run(), step=step)
        self._know_variables()
        return reading

    def _know_variables(self) -> None:
        """Once a fit, after its first steps: all that a crash leaves time for is here."""
        run, ops = self._run(), self._native.ops()
        model = None if run is None else run.model
        if self._variables is None and model is not None and ops is not None:
            with contextlib.suppress(Exception):  # whatever a script's model may do
                self._variables = memory_owners.variables_of(model, ops)

    def _last_words(self, error: BaseException) -> None:
        """The script ends by ``error``."""
        map_answer.at_crash(error, self._attempt, self._run(), self._variables or ())


def _estimate() -> Figures | None:
    counted = peak_readings.read()
    if counted is None:
        return None
    return Figures(
        source=MemorySource.ESTIMATE,
        in_use=counted.current_bytes,
        peak=counted.peak_bytes,
    )
