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

STEPS = 4
"""Each size is measured over this many steps, and the second lowest peak counts. How
many batches are prefetched, and which operations run at once, differs from step to
step; but where memory is short operations wait for each other, so the highest peak is
more than a step cannot do without."""

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
"""The slice aimed at is this part of the largest that the line says fits. What fits in
a few steps must fit in all that follow: the pool gets more crowded, and less tidy."""

APART = 1.4
"""The line goes through the last two sizes that are at least this many times apart.
Smaller slices are no guide: scratch memory that some operations take grows with the
slice only up to a certain size."""

CLEAR_PART = 0.9
"""Peaks above this part of the limit are left out of the line (see ``HALF``)."""

BELOW_FAILED = 0.9
"""No slice is larger than this part of one that failed: what fails once by little
fits at times, and a plan must not depend on luck."""

CLOSE = 1.04
"""A climb smaller than this is not worth a step."""

FURTHER = 1.2
"""Once an aim was reached, the peak there may lead to a further one, if it is this much
larger: less is within the scatter of the peaks, and not worth the danger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The lower middle peak of some steps."""

    size: int
    """Samples a slice."""
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A size to measure next."""

    size: int
    aimed: bool
    """Whether it is the aim itself, not a step on the way."""


def first_trial(*, batch: int, ceiling: int | None) -> int:
    """The slice to begin with: small enough that it fits if anything does."""
    below = batch if ceiling is None else min(ceiling, batch)
    return max(1, below // START_PART)


def next_trial(
    measured: Sequence[Measured],
    *,
    aimed: bool,
    batch: int,
    ceiling: int | None,
    limit_bytes: int,
) -> Trial | None:
    """The next larger slice to try; None: the largest of ``measured`` is the one.

    ``aimed``: whether that one was an aim. ``ceiling``: a size that failed, None if
    none did. Sizes are samples a slice.
    """
    last = max(one.size for one in measured)
    most = _most(batch=batch, ceiling=ceiling)
    reach = largest(measured, limit_bytes=limit_bytes)
    aim = min(most, GROWTH * last if reach is None else reach)
    worth = aim >= last * (FURTHER if aimed else CLOSE) or aim == most
    if aim <= last or not worth:
        return None
    if aim <= last * LAST_GROWTH:
        return Trial(size=aim, aimed=reach is not None)
    size = max(last + 1, min(GROWTH * last, int(HALF * aim)))
    return Trial(size=size, aimed=False)


def _most(*, batch: int, ceiling: int | None) -> int:
    if ceiling is None:
        return batch
    return max(1, min(batch, ceiling - 1, int(ceiling * BELOW_FAILED)))


def largest(measured: Sequence[Measured], *, limit_bytes: int) -> int | None:
    """The slice to aim at by ``peak = fixed + slope * size`` through ``measured``.

    None: it does not rise, or there is none yet.
    """
    clear = [one for one in measured if one.peak_bytes < CLEAR_PART * limit_bytes]
    points = sorted(
        clear if len(clear) > 1 else measured, key=lambda one: one.size, reverse=True
    )
    last, *others = points
    far = [one for one in others if one.size * APART <= last.size]
    if not far or far[0].peak_bytes >= last.peak_bytes:
        return None
    other = far[0]
    slope = (last.peak_bytes - other.peak_bytes) / (last.size - other.size)
    fixed = last.peak_bytes - slope * last.size
    return int(SAFE_PART * (limit_bytes - fixed) / slope)


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
        self._aimed = False
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
            aimed=self._aimed,
            batch=self._batch,
            ceiling=self._ceiling,
            limit_bytes=self._limit_bytes,
        )
        if trial is None:
            self.done = True
            settled = slicing.balanced(batch=self._batch, size=size)
            self._use(settled, f"measured at {len(self._measured)} sizes")
        else:
            self._aimed = trial.aimed
            self._use(trial.size, "being measured")

    def _use(self, size: int, why: str) -> None:
        self._on_trial(size, why)
        self._size.assign(size)
