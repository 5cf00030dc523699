"""Finding the largest slice that fits, in the first steps of training themselves.

The size of a slice changes nothing about a step but its memory, so no step is wasted
on measuring: the first steps run in small slices, the peak of each is read, and the
next step takes a larger slice, until the largest that stays below the limit is found.
The input pipeline and everything else in the pool are there as they will be later.

A failed allocation can be the end of the process, so each climb goes only as far as
the peaks measured so far say is safe: peak = fixed + slope * slice, with the steepest
slope seen, and a part of the limit kept free for fragmentation.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainers import slicing
from trainers.memory import allocator

STEPS = 3
"""Each size is measured over this many steps, and the middle peak counts: how many
batches are prefetched, and which operations run at once, differs from step to step.
The highest would say too much, as operations wait for each other where memory is short.
"""

START_PART = 32
"""The first slice is this part of the smallest that is known to fail."""

GROWTH = 2
"""One climb on the way doubles the slice: beyond, a line through few peaks is a guess."""

HALF = 0.5
"""The last climb starts from this part of its aim. Larger steps on the way say little:
the allocator hands out a chunk whole, up to twice what was asked for, rather than leave
less than 128 MiB of it, and the peak then counts all of it."""

LAST_GROWTH = 2.5
"""The last climb goes at most this far."""

SAFE_PART = 0.94
"""The slice aimed at is this part of the largest that the line says fits, after the
peaks' own scatter around the line is taken off the limit. What fits in three steps must
fit in all that follow: the pool gets more crowded, and less tidy, than it was."""

CLEAR_PART = 0.9
"""Peaks above this part of the limit are left out of the line (see ``HALF``)."""

BELOW_FAILED = 0.9
"""No slice is larger than this part of one that failed: what fails once by little
fits at times, and a plan must not depend on luck."""

CLOSE = 1.04
"""A climb smaller than this is not worth a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The middle peak of some steps."""

    size: int
    """Samples a slice."""
    peak_bytes: int


def first_trial(*, batch: int, ceiling: int | None) -> int:
    """The slice to begin with: small enough that it fits if anything does."""
    below = batch if ceiling is None else min(ceiling, batch)
    return max(1, below // START_PART)


def next_trial(
    measured: Sequence[Measured], *, batch: int, ceiling: int | None, limit_bytes: int
) -> int | None:
    """The next larger slice to try; None: the largest of ``measured`` is the one.

    ``ceiling``: a size that failed, None if none did. Sizes are samples a slice.
    """
    last = max(one.size for one in measured)
    most = _most(batch=batch, ceiling=ceiling)
    reach = largest(measured, limit_bytes=limit_bytes)
    aim = min(most, GROWTH * last if reach is None else reach)
    if aim <= last or (aim < last * CLOSE and aim < most):
        return None
    if aim <= last * LAST_GROWTH:
        return aim
    return min(most, max(last + 1, min(GROWTH * last, int(HALF * aim))))


def _most(*, batch: int, ceiling: int | None) -> int:
    if ceiling is None:
        return batch
    return max(1, min(batch, ceiling - 1, int(ceiling * BELOW_FAILED)))


def largest(measured: Sequence[Measured], *, limit_bytes: int) -> int | None:
    """The slice to aim at by ``peak = fixed + slope * size`` through ``measured``.

    The line is that of least squares. None: it does not rise, or there is none yet.
    """
    clear = [one for one in measured if one.peak_bytes < CLEAR_PART * limit_bytes]
    points = clear if len(clear) > 1 else measured
    sizes = [one.size for one in points]
    peaks = [one.peak_bytes for one in points]
    if len(points) < 2:
        return None
    slope, fixed = statistics.linear_regression(sizes, peaks)
    if slope <= 0:
        return None
    scatter = max(
        peak - fixed - slope * size for size, peak in zip(sizes, peaks, strict=True)
    )
    return int(SAFE_PART * (limit_bytes - fixed - scatter) / slope)


class Climb:
    """Runs the trials between the steps of one ``fit``."""

    def __init__(
        self,
        *,
        size: tf.Variable,
        seen: tf.Variable,
        batch: int,
        ceiling: int | None,
        limit_bytes: int,
        steps_a_call: int,
        on_trial: Callable[[int, str], None],
        on_peak: Callable[[int, int], None],
    ) -> None:
        """``size`` and ``seen``: as in ``microbatch_step.SlicedStep``;
        ``steps_a_call``: Keras' ``steps_per_execution``. ``on_trial``
        hears of a new size and why, before it is used; ``on_peak`` of a size and its
        peak in bytes."""
        self._size = size
        self._seen = seen
        self._batch = batch
        self._ceiling = ceiling
        self._limit_bytes = limit_bytes
        self._on_trial = on_trial
        self._on_peak = on_peak
        self._calls = -(-STEPS // steps_a_call)
        self._peaks: list[int] = []
        self._measured: list[Measured] = []
        self.done = False

    def before_step(self) -> None:
        """Start measuring."""
        self._seen.assign(0)
        allocator.reset_peak()

    def after_step(self, logs: Any) -> None:
        """Note the peak, and choose the size of the next step."""
        for value in tf.nest.flatten(logs):
            value.numpy()  # waits until the step is over, where steps are asynchronous
        reading = allocator.read()
        if reading is None or int(self._seen.numpy()) < self._batch:
            return  # a short batch says nothing about a whole one
        self._peaks.append(reading.peak_bytes)
        if len(self._peaks) < self._calls:
            return
        size, peak = int(self._size.numpy()), statistics.median_low(self._peaks)
        self._peaks = []
        self._measured.append(Measured(size=size, peak_bytes=peak))
        self._on_peak(size, peak)
        self._settle_or_climb(size)

    def _settle_or_climb(self, size: int) -> None:
        trial = next_trial(
            self._measured,
            batch=self._batch,
            ceiling=self._ceiling,
            limit_bytes=self._limit_bytes,
        )
        if trial is None:
            self.done = True
            trial = slicing.balanced(batch=self._batch, size=size)
            self._on_trial(trial, f"measured at {len(self._measured)} sizes")
        else:
            self._on_trial(trial, "being measured")
        self._size.assign(trial)
