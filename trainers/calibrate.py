"""Finding the largest slice that fits, in the first steps of training themselves.

The size of a slice changes nothing about a step but its memory, so no step is wasted
on measuring: the first steps run in small slices, what they need is read, and the
next steps take a larger slice, until the largest that stays below the limit is found.
The input pipeline and everything else in the pool are there as they will be later.

A failed allocation can be the end of the process, so a climb must not promise too much.
What lies in the pool between steps is known, whatever the slice. What a step adds is the
highest of several sums (forward, backward, the update), each ``constant + slope *
slice``: a slice g times as large adds at most g times as much. So the next slice is
larger by what the room that is left allows, and from below that ends where the room is
used. A line through two peaks would promise more wherever another sum takes the lead.

XLA asks for all that a compiled function needs in one block, and a batch that was
prefetched while the block was in use may lie right behind it. So the allocator's map is
asked as well, where there is one: a size waits for a moment at which its largest request
finds a place in one piece. Once there, the block finds its own place again.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from supervisor.wire.slices import balanced, count
from trainers.memory import allocator
from trainers.memory.native import Figures

STEPS = 4
"""Each size is measured over this many steps ..."""

STEPS_ON_THE_WAY = 2
"""... or this many, as long as the next one is far larger anyway."""

FAR = 1.5
"""So many times. Steps differ by a few percent: a line through nearer sizes than these
says more about that than about the size."""

STEPS_IN_DOUBT = 12
"""So many if one slice less fits at the worst, and nothing but the line rules it out."""

START_PART = 32
"""The first slice is this part of the smallest that is known to fail."""

GROWTH = 2
"""One climb at most doubles the slice."""

SAFE_PART = 0.93
"""The part of the limit to be used. What fits in a few steps must fit in all that
follow: the pool gets more crowded, and less tidy."""

TIGHT_PART = 0.98
"""A slice that turns out to need more than this part of the limit is too large, and one
that by no means needs more may be tried, if it is likely to need less."""

LIKELY_PART = 0.95
"""That much: what the line through two sizes may promise. Twelve steps of one size still
leave it uncertain by a hundredth."""

BELOW_FAILED = 0.9
"""No slice is larger than this part of one that failed: what fails once by little
fits at times, and a plan must not depend on luck."""

CALM_PART = 0.8
"""A size that saves no slice, and only tells more, is tried as long as no step has come
nearer to the limit than this: the steps of one size differ by a tenth."""

CLOSE = 1.03
"""A climb smaller than this is not worth a step."""

LARGE_PIECE = 0.25
"""Of what a step adds. Measured, an mlp: without XLA 0.15 at most, with it 0.42."""

STEPS_FOR_A_PLACE = 16
"""So many steps a size waits for a free block that holds its largest request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The pool around one step (or the steps of one execution), in bytes."""

    before: int
    peak: int
    after: int
    request: int | None = None
    """The largest single request; None: not known."""

    @property
    def between(self) -> int:
        """What lies there between steps: weights, data, prefetched batches."""
        return max(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What training in slices of one size needs, in bytes."""

    size: int
    """Samples a slice."""
    between: int
    """In the pool between steps, at any size."""
    added: int
    """By a step."""
    highest: int
    """The highest peak of all its steps."""
    request: int | None = None
    """The largest that a step asks for in one piece; None: not known."""

    @property
    def in_pieces(self) -> bool:
        """Whether what a step adds is known to be of many pieces, none of them large.

        XLA asks for one or a few, and may be given free blocks of twice the size.
        """
        return self.request is not None and LARGE_PIECE * self.added > self.request


def needs(readings: Mapping[int, Sequence[Readings]]) -> list[Need]:
    """What each size (samples a slice) needs, by the readings of its steps.

    How many batches are prefetched differs from step to step, whatever the size: the
    most ever seen counts for all. What a step adds depends on which operations happen
    to run at once, and where memory is short operations wait: the extremes do not count.

    Nor does what nobody asked for. The allocator may hand out a free block whole, up to
    twice what was asked for, and one of XLA's is most of the pool: so no size counts for
    more than the one before it allows (see above), whatever its steps took.
    """
    between = max(one.between for steps in readings.values() for one in steps)
    found: list[Need] = []
    for size in sorted(readings):
        need = _need(size, readings[size], between)
        found.append(_no_more_than_asked(need, found[-1]) if found else need)
    return found


def _need(size: int, steps: Sequence[Readings], between: int) -> Need:
    return Need(
        size=size,
        between=between,
        added=int(statistics.median(one.peak - one.between for one in steps)),
        highest=max(one.peak for one in steps),
        request=max((one.request for one in steps if one.request), default=None),
    )


def _no_more_than_asked(need: Need, before: Need) -> Need:
    def most(now: int, then: int) -> int:
        return min(now, -(-then * need.size // before.size))

    known = need.request is not None and before.request is not None
    return replace(
        need,
        added=most(need.added, before.added),
        request=most(need.request or 0, before.request or 0) if known else need.request,
    )


def first_trial(*, batch: int, ceiling: int | None) -> int:
    """The slice to begin with: small enough that it fits if anything does."""
    below = batch if ceiling is None else min(ceiling, batch)
    return max(1, below // START_PART)


def largest(need: Need, *, limit_bytes: int, part: float = SAFE_PART) -> int:
    """The slice that certainly needs no more than ``part`` of the limit.

    As far as ``need`` tells; may be below it, or 0.
    """
    room = max(0.0, part * limit_bytes - need.between)
    return int(need.size * room / max(1, need.added))


def next_trial(
    need: Need,
    *,
    before: Need | None = None,
    batch: int,
    ceiling: int | None,
    limit_bytes: int,
) -> int | None:
    """The next larger slice to try; None: the one of ``need`` is the last.

    ``before``: one measured before it (``far_below``), None if it is the first.
    ``ceiling``: a size that failed, None if none did. Sizes are samples a slice.

    Only fewer slices save time, so where one slice less is out of reach the climb ends:
    every trial near the limit is a danger. The line through two sizes promises too
    much (see above), so what it rules out is ruled out.
    """
    fewer, most = _one_less(need.size, batch), _most(batch=batch, ceiling=ceiling)
    promised = _promised(need, before, fewer or need.size)
    likely = (LIKELY_PART if need.in_pieces else SAFE_PART) * limit_bytes
    if fewer is None or fewer > most or promised > likely:
        return None
    aim = min(most, largest(need, limit_bytes=limit_bytes), GROWTH * need.size)
    if aim >= fewer:
        return balanced(batch=batch, size=aim)
    if before is not None and _fits_at_worst(need, fewer, limit_bytes):
        return fewer
    calm = need.highest <= CALM_PART * limit_bytes
    return aim if calm and aim >= need.size * CLOSE and aim > need.size else None


def in_doubt(need: Need, *, batch: int, ceiling: int | None, limit_bytes: int) -> bool:
    """Whether one slice less fits at the worst: only the line could rule it out.

    Never where a step asks for one large piece: there the worst is not known.
    """
    fewer = _one_less(need.size, batch)
    if fewer is None or fewer > _most(batch=batch, ceiling=ceiling):
        return False
    return _fits_at_worst(need, fewer, limit_bytes)


def far_below(size: int, sizes: Sequence[Need]) -> Need | None:
    """The largest of ``sizes`` that is far below ``size``, or the smallest of them."""
    below = sorted((one for one in sizes if one.size < size), key=lambda one: one.size)
    far = [one for one in below if one.size * FAR <= size]
    return next(iter([*far[-1:], *below]), None)


def has_place(need: Need, size: int, *, free_bytes: int | None) -> bool:
    """Whether slices of ``size`` find their largest request in one piece.

    ``free_bytes``: the largest that could be had now; None: not known. A slice g times
    as large asks for at most g times as much, as with all that a step adds.
    """
    if need.request is None or free_bytes is None:
        return True
    return need.request * size <= free_bytes * need.size


def _one_less(size: int, batch: int) -> int | None:
    """The size that makes one slice less than ``size``; None: it is one already."""
    number = count(batch=batch, size=size)
    return None if number == 1 else -(-batch // (number - 1))


def _fits_at_worst(need: Need, size: int, limit_bytes: int) -> bool:
    tight = largest(need, limit_bytes=limit_bytes, part=TIGHT_PART)
    return need.in_pieces and size <= min(tight, GROWTH * need.size)


def _promised(need: Need, before: Need | None, size: int) -> float:
    """Bytes that training in slices of ``size`` needs by the line through two sizes."""
    if before is None:
        return need.between
    slope = (need.added - before.added) / (need.size - before.size)
    return need.between + need.added + max(slope, 0.0) * (size - need.size)


def settled(sizes: Sequence[Need], *, limit_bytes: int) -> int:
    """The slice to stay with: the largest tried, or a smaller one if that is tight."""
    *_, last = ordered = sorted(sizes, key=lambda need: need.size)
    if last.between + last.added <= TIGHT_PART * limit_bytes or len(ordered) == 1:
        return last.size
    return max(ordered[-2].size, min(largest(last, limit_bytes=limit_bytes), last.size))


def _most(*, batch: int, ceiling: int | None) -> int:
    if ceiling is None:
        return batch
    return max(1, min(batch, ceiling - 1, int(ceiling * BELOW_FAILED)))


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
        figures: Callable[[], Figures | None] = lambda: None,
    ) -> None:
        """``size`` and ``seen``: as in ``microbatch_step.SlicedStep``;
        ``steps_a_call``: Keras' ``steps_per_execution``. ``on_trial``
        hears of a new size and why, before it is used; ``on_peak`` of a size and its
        peak in bytes. ``figures``: what the allocator's map says."""
        self._size = size
        self._seen = seen
        self._batch = batch
        self._ceiling = ceiling
        self._limit_bytes = limit_bytes
        self._on_trial = on_trial
        self._on_peak = on_peak
        self._steps_a_call = steps_a_call
        self._figures = figures
        self._before_bytes = 0
        self._readings: dict[int, list[Readings]] = {}
        self.done = False

    def before_step(self) -> None:
        """Start measuring."""
        self._seen.assign(0)
        allocator.reset_peak()
        reading = allocator.read()
        self._before_bytes = 0 if reading is None else reading.current_bytes

    def after_step(self, logs: Any) -> None:
        """Note the peak, and choose the size of the next step."""
        for value in tf.nest.flatten(logs):
            value.numpy()  # waits until the step is over, where steps are asynchronous
        reading, figures = allocator.read(), self._figures()
        if reading is None or int(self._seen.numpy()) < self._batch:
            return  # a short batch says nothing about a whole one
        size = int(self._size.numpy())
        steps = self._readings.setdefault(size, [])
        steps.append(
            Readings(
                before=self._before_bytes,
                peak=reading.peak_bytes,
                after=reading.current_bytes,
                request=None if figures is None else figures.largest_request,
            )
        )
        free = None if figures is None else figures.largest_allocatable
        self._settle_or_climb(
            size, steps_seen=len(steps) * self._steps_a_call, free_bytes=free
        )

    def _settle_or_climb(
        self, size: int, *, steps_seen: int, free_bytes: int | None
    ) -> None:
        if steps_seen < STEPS_ON_THE_WAY:
            return
        sizes = needs(self._readings)
        need = next(one for one in sizes if one.size == size)
        trial = next_trial(
            need,
            before=far_below(size, sizes),
            batch=self._batch,
            ceiling=self._ceiling,
            limit_bytes=self._limit_bytes,
        )
        if steps_seen < self._enough(need, trial):
            return
        if trial is not None and not has_place(need, trial, free_bytes=free_bytes):
            if steps_seen < STEPS_FOR_A_PLACE:
                return
            trial = None
        self._on_peak(size, max(one.peak for one in self._readings[size]))
        if trial is None:
            self.done = True
            final = settled(sizes, limit_bytes=self._limit_bytes)
            final = balanced(batch=self._batch, size=final)
            self._use(final, f"measured at {len(sizes)} sizes")
        else:
            self._use(trial, "being measured")

    def _enough(self, need: Need, trial: int | None) -> int:
        """How many steps have to be seen for ``trial`` to be what follows."""
        if trial is not None:
            return STEPS_ON_THE_WAY if trial >= FAR * need.size else STEPS
        doubtful = in_doubt(
            need,
            batch=self._batch,
            ceiling=self._ceiling,
            limit_bytes=self._limit_bytes,
        )
        return STEPS_IN_DOUBT if doubtful else STEPS

    def _use(self, size: int, why: str) -> None:
        self._on_trial(size, why)
        self._size.assign(size)
