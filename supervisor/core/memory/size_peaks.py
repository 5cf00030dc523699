"""Peaks of memory by the size of a slice, as one attempt saw them."""

from collections.abc import Sequence
from dataclasses import dataclass


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
