"""The sizes of batches that an estimate tries: the smallest first, each far from the last.

What a step adds is the highest of several sums, each ``constant + slope * size``: a size g
times as large adds at most g times as much, and the larger the sizes, the straighter the
line through the last two of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

FAR = 4
"""A size so many times the last one: a line through near ones says more of how steps
differ than of their size."""
FIRST_PART = 16
"""The first size is this part of the batch."""
FIRST_PART_COMPILED = 4
"""... where each size is compiled anew, which takes longer than its steps."""
CLOSE = 1.5
"""A size less than so many times the last one tells nothing new."""
STRAIGHT_SECONDS = 20.0
"""Where tracing took the time for three sizes, the second is the batch itself if its steps
take no longer than that."""
SAFE_PART = 0.9
"""Of the room that is left: a failed allocation may be the end of the process."""

NO_ROOM = "a larger batch might not fit into the memory of this machine"
NO_TIME = "a larger batch would take longer than is given to an estimate (--seconds gives more)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSize:
    """One size that was tried."""

    size: int
    added_bytes: int
    step_seconds: float
    first_seconds: float
    """Of the first step, which compiles."""


def first_size(batch: int, *, compiles: bool) -> int:
    """The size to begin with, for estimates up to ``batch`` samples."""
    return max(1, batch // (FIRST_PART_COMPILED if compiles else FIRST_PART))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """What trials may use."""

    batch: int
    """The largest size of interest."""
    room_bytes: int
    """For a step, beside what is there between steps."""
    seconds: float
    """Until all has to be over."""
    steps: int
    """That a trial makes after the first."""
    compiles: bool
    """Whether each size is compiled anew."""


def next_size(
    tried: Sequence[TriedSize], limits: TrialLimits
) -> tuple[int | None, str]:
    """The next size; None: there is none, and why, or an empty text: all were tried.

    Two sizes are tried whatever the time: one alone says nothing of others.
    """
    last = tried[-1]
    if last.size >= limits.batch:
        return None, ""
    by_room = SAFE_PART * limits.room_bytes / max(last.added_bytes, 1)
    by_time = _second(last, limits) if len(tried) == 1 else _by_time(last, limits)
    size = int(last.size * min(by_room, by_time))
    if size >= limits.batch:
        return limits.batch, ""
    if size < last.size * CLOSE:
        return None, NO_ROOM if by_room < by_time else NO_TIME
    return size, ""


def _second(first: TriedSize, limits: TrialLimits) -> float:
    """So many times the first size: the batch itself says more than a line to it, where no
    third size would be tried."""
    whole = limits.batch / first.size
    steps = (1 + limits.steps) * first.step_seconds
    in_time = limits.seconds >= steps * (FAR + whole)
    if limits.compiles or in_time or steps * whole > STRAIGHT_SECONDS:
        return float(FAR)
    return whole


def _by_time(last: TriedSize, limits: TrialLimits) -> float:
    """So many times the last size there is time for, and not farther."""
    compiling = last.first_seconds if limits.compiles else 0.0
    steps = (1 + limits.steps) * max(last.step_seconds, 1e-9)
    return min(max(limits.seconds - compiling, 0.0) / steps, FAR)
