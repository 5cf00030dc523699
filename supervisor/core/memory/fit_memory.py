"""The memory of one call of ``fit``: sizes of slices, and peaks measured with them.

A size of a slice and the peak measured with it say nothing about another call: it may
have another model, another batch, other data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

KEPT = 8
"""Measured calls kept of an attempt: a script may call ``fit`` for every epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePeaks:
    """What steps of one size were seen to need, in bytes, all of the pool counted."""

    slice_size: int
    usual_bytes: int
    """The median of the steps; of several measurements the lowest."""
    highest_bytes: int
    steps: int = 1
    """How many steps were measured."""


def noted(known: Sequence[SizePeaks], seen: SizePeaks) -> tuple[SizePeaks, ...]:
    """``known`` and another measurement; one for each size, the smallest first."""
    by_size = {one.slice_size: one for one in known}
    before = by_size.get(seen.slice_size)
    by_size[seen.slice_size] = seen if before is None else _both(before, seen)
    return tuple(by_size[size] for size in sorted(by_size))


def _both(one: SizePeaks, other: SizePeaks) -> SizePeaks:
    return SizePeaks(
        slice_size=one.slice_size,
        usual_bytes=min(one.usual_bytes, other.usual_bytes),
        highest_bytes=max(one.highest_bytes, other.highest_bytes),
        steps=one.steps + other.steps,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMemory:
    """One call of ``fit``. None: not known."""

    fit: int | None = None
    """Number of the call, from 0."""
    model: str | None = None
    """What the model, its optimizer and its data look like, as a digest."""
    batch: int | None = None
    slice_size: int | None = None
    """Samples in a slice; None: the batch was not sliced."""
    peak_bytes: int | None = None
    """Highest use of the allocator over whole steps at that size."""
    peaks: tuple[SizePeaks, ...] = ()
    """Of each size that it measured; none of some."""
    limit_bytes: int | None = None
    jit: bool | None = None
    stepped: bool = False
    """A whole step was done at that size: it fits, if memory is in one piece."""

    @property
    def size(self) -> int | None:
        """Samples worked through at once."""
        return self.slice_size or self.batch


def same_work(one: FitMemory, other: FitMemory) -> bool:
    """Whether sizes measured in one call hold for the other: the same batch of the same
    model. Where a model is not known, the number of the call has to tell."""
    if one.batch != other.batch:
        return False
    if one.model is not None and other.model is not None:
        return one.model == other.model
    return one.fit is None or other.fit is None or one.fit == other.fit


def another_call(
    before: FitMemory, *, fit: int | None, batch: int | None, model: str | None
) -> bool:
    """Whether what is told now is of another call than ``before``. A script that catches
    an exception and tries another batch calls ``fit`` again under the same number."""
    pairs = ((before.fit, fit), (before.batch, batch), (before.model, model))
    return any(
        then is not None and now is not None and then != now for then, now in pairs
    )


def remembered(earlier: Sequence[FitMemory], ended: FitMemory) -> tuple[FitMemory, ...]:
    """``earlier``, and ``ended`` if something was measured in it; the newest of those
    that are alike."""
    if ended.peak_bytes is None:
        return tuple(earlier)
    others = [
        one
        for one in earlier
        if not (same_work(one, ended) and one.slice_size == ended.slice_size)
    ]
    return (*others, ended)[-KEPT:]


def step_bytes(
    fits: Sequence[FitMemory], *, asked_bytes: int, between_bytes: int | None
) -> int | None:
    """What a whole step of the newest of ``fits`` needs at the least; None: no more is
    known than that such a step was done, or not even its size.

    ``asked_bytes``: what it asked for in one piece when it failed. ``between_bytes``: in
    use between steps.

    By the peaks of fewer samples of the same model: what lies there between steps does
    not grow with the samples, nor do the gradients of the weights, which are at most as
    large; the rest does. Without such a peak: a tensor that a step computes has a
    gradient of its own size, and both are there at once.
    """
    if not fits or fits[-1].size is None:
        return None
    now, size, between = fits[-1], fits[-1].size, between_bytes or 0
    if any(one.stepped and one.size == size and same_work(one, now) for one in fits):
        return None
    found = [
        _at_least(one.peak_bytes, one.size, size, fixed=2 * between)
        for one in fits
        if _same_model(one, now) and one.peak_bytes and one.size and one.size < size
    ]
    return max(found, default=between + 2 * asked_bytes)


def _at_least(peak: int, samples: int, size: int, *, fixed: int) -> int:
    constant = min(peak, fixed)
    return constant + (peak - constant) * size // samples


def _same_model(one: FitMemory, other: FitMemory) -> bool:
    return same_work(one, other) or (one.model is not None and one.model == other.model)
