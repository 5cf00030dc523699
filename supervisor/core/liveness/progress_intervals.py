"""Intervals of progress by phase: the longest times, and how many there were.

Kept are a count and the longest few, which is all that a high quantile needs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

KEPT = 16
QUANTILE = 0.99
"""One time in a hundred may be an accident; the deadline has a factor beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressIntervals:
    """Times between two looks that saw progress in one phase, the next one each."""

    phase: str
    count: int = 0
    longest: tuple[float, ...] = ()
    """In seconds, the longest first; at most ``KEPT``."""

    def with_time(self, seconds: float) -> "ProgressIntervals":
        """One time more."""
        longest = self.longest
        if len(longest) < KEPT or seconds > longest[-1]:
            longest = _longest([*longest, seconds])
        return ProgressIntervals(
            phase=self.phase, count=self.count + 1, longest=longest
        )

    @property
    def usual(self) -> float | None:
        """The 99 % quantile, in seconds (nearest rank); None: nothing was seen yet.

        Beyond ``100 * KEPT`` times a little more than that: the least that is kept.
        """
        if not self.count:
            return None
        rank = min(int((1 - QUANTILE) * self.count), len(self.longest) - 1)
        return self.longest[rank]

    @property
    def twice(self) -> float | None:
        """What was reached twice: the second longest, in seconds."""
        return self.longest[1] if self.count > 1 else None


def together(intervals: Iterable[ProgressIntervals]) -> dict[str, ProgressIntervals]:
    """Those of several attempts as one, by phase."""
    merged: dict[str, ProgressIntervals] = {}
    for one in intervals:
        old = merged.get(one.phase, ProgressIntervals(phase=one.phase))
        merged[one.phase] = ProgressIntervals(
            phase=one.phase,
            count=old.count + one.count,
            longest=_longest([*old.longest, *one.longest]),
        )
    return merged


def _longest(times: list[float]) -> tuple[float, ...]:
    return tuple(sorted(times, reverse=True)[:KEPT])
