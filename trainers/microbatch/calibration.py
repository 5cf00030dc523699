"""The search for the largest slice that fits, in the first steps of training themselves.

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

Steps of one size differ, the more so on a busy machine: what follows from their median
must hold with room to spare, and what they may need at worst (``room``) must stay below
the limit, too. Where only the little that is known of how they vary is against a size,
more steps are measured.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.wire.slices import ENOUGH_STEPS, TIGHT_PART, balanced, count, worst

FAR = 1.5
"""A size so many times another one is far from it. Steps differ by a few percent: a line
through nearer sizes says more about that than about the size."""

START_PART = 32
"""The first slice is this part of the smallest that is known to fail."""

GROWTH = 2
"""One climb at most doubles the slice."""

SAFE_PART = 0.93
"""The part of the limit to be used. What fits in a few steps must fit in all that
follow: the pool gets more crowded, and less tidy."""

LIKELY_PART = 0.95
"""That much, by the line through two sizes: medians of a few steps make it uncertain,
and where this holds the worst is bounded anyway."""

BELOW_FAILED = 0.9
"""No slice is larger than this part of one that failed: what fails once by little
fits at times, and a plan must not depend on luck."""

CALM_PART = 0.8
"""A size that saves no slice, and only tells more, is tried as long as no step has come
nearer to the limit than this: the steps of one size differ by a tenth."""

DARING_PART = 0.5
"""A trial that may use more of the limit than this is begun from a snapshot: should it
fail, nothing is lost by it."""

CLOSE = 1.03
"""A climb smaller than this is not worth a step."""

LARGE_PIECE = 0.25
"""Of what a step adds. Measured, an mlp: without XLA 0.15 at most, with it 0.42."""

SMALL_PIECE = 0.1
"""Of what a step near the limit adds: such a step is larger than the others of its size,
and its pieces are not. Measured: 0.05 of an mlp, which only waits there; 0.18 of the
demo's convolutions, which ran out of memory."""

ONE_PIECE = 0.9
"""Of what a step adds. Measured, a transformer with XLA: 0.98."""


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
    least: int | None = None
    """The smallest block that was given to a step for that: no other had less to spare."""
    most: int = 0
    """The most that one of its steps added, with what its blocks had to spare."""
    steps: int = ENOUGH_STEPS
    """How many were measured."""

    @property
    def in_pieces(self) -> bool:
        """Whether what a step adds is known to be of many pieces, none of them large.

        XLA asks for one or a few, and may be given free blocks of twice the size.
        """
        return self.request is not None and LARGE_PIECE * self.added > self.request

    @property
    def in_one_piece(self) -> bool:
        """Whether what a step adds is known to be one block, and hardly more.

        Then all there is to know is whether that finds a place (``has_place``).
        """
        return self.least is not None and self.least >= ONE_PIECE * self.added

    @property
    def worst(self) -> float:
        """What a step may add at worst, as far as steps of this size were seen to vary.

        One block alone has nothing to vary by but what it has to spare, which nothing
        else asks for.
        """
        if self.in_one_piece:
            return self.added
        return worst(usual=self.added, highest=self.most, steps=self.steps)

    @property
    def likely_part(self) -> float:
        """Of the limit: what may be used where the line says that no more is needed."""
        if self.in_one_piece:
            return TIGHT_PART
        return LIKELY_PART if self.in_pieces else SAFE_PART


def needs(
    readings: Mapping[int, Sequence[Readings]], *, steps_a_reading: int = 1
) -> list[Need]:
    """What each size (samples a slice) needs, by the readings of its steps.

    How many batches are prefetched differs from step to step, whatever the size: the
    most ever seen counts for all. What a step adds depends on which operations happen
    to run at once, and where memory is short operations wait: the extremes do not count
    for what it usually adds (``Need.worst`` has them).

    Nor does what nobody asked for. The allocator may hand out a free block whole, up to
    twice what was asked for, and one of XLA's is most of the pool: so what one step got
    more than another of that size is taken off, and no size counts for more than the one
    before it allows (see above), whatever its steps took.
    """
    between = max(one.between for steps in readings.values() for one in steps)
    found: list[Need] = []
    for size in sorted(readings):
        steps = readings[size]
        need = _need(size, steps, between, count_of_steps=len(steps) * steps_a_reading)
        found.append(_no_more_than_asked(need, found[-1]) if found else need)
    return found


def _need(
    size: int, steps: Sequence[Readings], between: int, *, count_of_steps: int
) -> Need:
    given = [one.request for one in steps if one.request]
    least = min(given, default=None)
    need = Need(
        size=size,
        between=between,
        added=int(statistics.median(one.peak - one.between for one in steps)),
        highest=max(one.peak for one in steps),
        request=max(given, default=None),
        least=least,
        most=max(one.peak - one.between for one in steps),
        steps=count_of_steps,
    )
    if need.in_pieces or least is None:
        return need
    return replace(need, added=_added_in_one_piece(steps, least))


def _added_in_one_piece(steps: Sequence[Readings], least: int) -> int:
    """The median of what steps added, without what their largest block had to spare
    over the ``least``."""

    def added(one: Readings) -> int:
        return one.peak - one.between - max(0, (one.request or least) - least)

    return int(statistics.median(map(added, steps)))


def _no_more_than_asked(need: Need, before: Need) -> Need:
    def most(now: int, then: int) -> int:
        return min(now, -(-then * need.size // before.size))

    known = need.request is not None and before.request is not None
    return replace(
        need,
        added=most(need.added, before.added),
        request=most(need.request or 0, before.request or 0) if known else need.request,
        least=most(need.least or 0, before.least or 0) if known else need.least,
    )


def first_trial(*, batch: int, ceiling: int | None) -> int:
    """The slice to begin with: small enough that it fits if anything does."""
    below = batch if ceiling is None else min(ceiling, batch)
    return max(1, below // START_PART)


def largest(need: Need, *, limit_bytes: int, part: float = SAFE_PART) -> int:
    """The slice that usually needs no more than ``part`` of the limit, and at worst no
    more than what is tight.

    As far as ``need`` tells; may be below it, or 0.
    """

    def within(part: float, added: float) -> int:
        room = max(0.0, part * limit_bytes - need.between)
        return int(need.size * room / max(1.0, added))

    return min(within(part, need.added), within(TIGHT_PART, need.worst))


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
    likely = need.likely_part * limit_bytes
    if fewer is None or fewer > most or promised > likely:
        return None
    aim = min(most, largest(need, limit_bytes=limit_bytes), GROWTH * need.size)
    if aim >= fewer:
        return balanced(batch=batch, size=aim)
    if before is not None and _fits_at_worst(need, fewer, limit_bytes):
        return fewer
    calm = need.highest <= CALM_PART * limit_bytes
    return aim if calm and aim >= need.size * CLOSE and aim > need.size else None


def in_doubt(
    need: Need,
    *,
    before: Need | None = None,
    batch: int,
    ceiling: int | None,
    limit_bytes: int,
) -> bool:
    """Whether more steps of this size may show that it fits, or that a larger one does.

    Either one slice less fits at the worst, and only the line through two sizes rules
    it out (never where a step asks for a few large pieces: there the worst is not
    known). Or too few steps were measured to know how they vary.
    """
    seasoned = replace(need, steps=ENOUGH_STEPS)
    fewer = _one_less(need.size, batch)
    below = fewer is not None and fewer <= _most(batch=batch, ceiling=ceiling)
    if below and _fits_at_worst(seasoned, fewer or need.size, limit_bytes):
        return True
    trials = {
        next_trial(
            one, before=before, batch=batch, ceiling=ceiling, limit_bytes=limit_bytes
        )
        for one in (need, seasoned)
    }
    fitting = {fits(one, limit_bytes=limit_bytes) for one in (need, seasoned)}
    return len(trials) > 1 or len(fitting) > 1


def is_daring(need: Need, trial: int, *, limit_bytes: int) -> bool:
    """Whether slices of ``trial`` samples might fail, by what those of ``need`` need."""
    added = max(need.added, need.worst) * trial / need.size
    return need.between + added > DARING_PART * limit_bytes


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
    bounded = need.in_pieces or need.in_one_piece
    return bounded and size <= min(tight, GROWTH * need.size)


def _promised(need: Need, before: Need | None, size: int) -> float:
    """Bytes that training in slices of ``size`` needs by the line through two sizes."""
    if before is None:
        return need.between
    slope = (need.added - before.added) / (need.size - before.size)
    return need.between + need.added + max(slope, 0.0) * (size - need.size)


def fits(need: Need, *, limit_bytes: int) -> bool:
    """Whether its size stays below the limit, with room for how its steps vary."""
    return need.between + max(need.added, need.worst) <= TIGHT_PART * limit_bytes


def settled(sizes: Sequence[Need], *, limit_bytes: int) -> int:
    """The slice to stay with: the largest tried, or a smaller one if that is tight.

    No smaller than the largest of those below it that fit.
    """
    *smaller, last = sorted(sizes, key=lambda need: need.size)
    if fits(last, limit_bytes=limit_bytes) or not smaller:
        return last.size
    fitting = [need for need in smaller if fits(need, limit_bytes=limit_bytes)]
    if not fitting:
        return smaller[0].size
    if fitting[-1] is not smaller[-1]:
        return fitting[-1].size
    return max(fitting[-1].size, _between(fitting[-1], last, limit_bytes=limit_bytes))


def _between(lower: Need, upper: Need, *, limit_bytes: int) -> int:
    """The largest slice between two that were tried, of which the upper does not fit.

    What a step adds is the highest of several straight lines (see above): between two
    sizes it lies below the line through them, and above that through nothing at all.
    """

    def up_to(part: float, low: float, high: float) -> float:
        room = part * limit_bytes - lower.between
        if high <= low:
            return upper.size
        share = min(1.0, max(0.0, (room - low) / (high - low)))
        return lower.size + share * (upper.size - lower.size)

    return int(
        min(
            up_to(SAFE_PART, lower.added, upper.added),
            up_to(TIGHT_PART, lower.worst, upper.worst),
            largest(upper, limit_bytes=limit_bytes),
            upper.size,
        )
    )


def _most(*, batch: int, ceiling: int | None) -> int:
    if ceiling is None:
        return batch
    return max(1, min(batch, ceiling - 1, int(ceiling * BELOW_FAILED)))
