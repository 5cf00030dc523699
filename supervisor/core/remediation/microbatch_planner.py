"""The planner of slices: how to slice a batch so that a step fits into memory.

The rules, in order, after an attempt ran out of memory:

1. A slice as large as one that failed under the same (or a larger) limit is never
   asked for again; one sample is the smallest.
2. Peaks of two sizes under the same limit and compilation give the line
   ``peak = fixed + slope * slice`` (weights, optimizer, data and prefetched batches
   are the fixed part): the plan is the slice at which it reaches the limit, less a
   margin, and less the room for how peaks of one size were seen to vary (``room``).
   A size that was measured, and has not that room, is not planned, nor a larger one.
   Once slices failed that had been thought to fit, none larger than measured is planned.
3. With less known, the next attempt measures for itself: it climbs from small slices
   in its first steps (``calibrate``), below what failed.
4. Where measured plans failed too, the slice is halved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from supervisor.wire.slices import balanced, count, worst

SAFE_PART = 0.96
"""A planned slice is this part of the largest that the line says fits."""

BELOW_FAILED = 0.9
"""... and at most this part of one that failed: what fails once by little, fits at
times, and a plan must not depend on luck."""

NEAR = 0.5
"""How peaks vary is read from sizes of this part of the largest that fitted, or more:
what a batch more or less in the pool makes out is much beside a small slice."""

NEARLY_ALL = 0.95
"""What is needed at this part of the limit whatever the slice leaves no room for one: steps
of one size differ by more than the rest."""

FAILURES_TO_STOP = 2
"""Processes that ran out of memory in small slices, before more slices are given up."""
SMALL_PART = 32
"""A slice of this part of the batch or less has little left to save: of a batch that needs
three times the limit, half as large ones save a twentieth of it."""

APART = 2
"""One size has to be so many times the other to show what does not shrink with it."""

MEASURED_FAILURES = 2
"""So many failures of sliced attempts, and measuring is not trusted any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrobatchPlan:
    """How the next attempt slices its batch (stored as JSON in the ledger)."""

    slice_size: int | None
    """Samples in a slice; under ``calibrate`` what to do where measuring fails."""
    slices: int
    """Slices of a whole batch at that size."""
    calibrate: bool
    """Measure in the first steps, and take the largest slice that fits."""
    ceiling: int | None
    """Stay below this many samples: it failed."""
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one attempt showed. None: not known."""

    slice_size: int
    """Samples in a slice; the whole batch, if it was not sliced."""
    peak_bytes: int | None
    """Highest use of the allocator over whole steps at that slice."""
    failed: bool
    """It ran out of memory at this slice."""
    limit_bytes: int | None
    jit: bool | None
    usual_bytes: int | None = None
    """The median of its steps; None: the same, as far as is known."""
    steps: int = 1
    """How many steps were measured."""


def next_plan(
    observations: Sequence[Observation], *, batch: int | None
) -> MicrobatchPlan | None:
    """The plan after an OOM; None: nothing smaller is left, or the batch is unknown.

    ``observations``: oldest first; ``batch``: samples in a whole batch.
    """
    ceiling = smallest_failure(observations)
    if batch is None or ceiling is None or ceiling <= 1:
        return None
    sliced_failures = _sliced_failures(observations, batch)
    measured = _by_size(_comparable(observations))
    most = min(below(ceiling), _roomy(measured))
    modelled = _modelled(measured, ceiling, measured_only=sliced_failures > 0)
    calibrate = modelled is None and sliced_failures < MEASURED_FAILURES
    size = int(max(1, min(ceiling // 2, most)))
    because = f"slices of {ceiling} samples failed, although they were measured"
    if modelled is not None:
        size = int(min(modelled, most))
        because = f"by the peaks measured so far, slices of {size} samples fit"
    elif calibrate:
        because = (
            f"{ceiling} samples at once do not fit: the first steps measure how many do"
        )
    size = balanced(batch=batch, size=size)
    return MicrobatchPlan(
        slice_size=size,
        slices=count(batch=batch, size=size),
        calibrate=calibrate,
        ceiling=ceiling,
        because=because,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnslicedPart:
    """What a step needs however small its slices are, in bytes."""

    bytes: int
    limit_bytes: int


def unsliced_part(
    observations: Sequence[Observation], *, batch: int | None
) -> UnslicedPart | None:
    """What does not shrink with slices, where that takes nearly all of the limit and small
    slices failed in two processes: then smaller ones would fail as well. None: it does not,
    or nobody knows.

    By the peaks of two sizes that are far enough apart. A peak at the limit may be what
    operations took because it was there (a step of 4 and one of 1 sample took 99 % alike,
    and trained to the end in a fresh process): so it is said of small slices alone, and not
    before a second process failed with some.
    """
    if batch is None:
        return None
    small_size = max(1, batch // SMALL_PART)
    failures = [seen for seen in observations if seen.failed]
    small_failures = [one for one in failures if one.slice_size <= small_size]
    failed = smallest_failure(observations)
    if failed is None or len(small_failures) < FAILURES_TO_STOP:
        return None
    small, *larger = _by_size(_comparable(observations)) or (None,)
    limit = None if small is None else small.limit_bytes
    if small is None or limit is None or not larger:
        return None
    large = larger[-1]
    if large.slice_size < APART * small.slice_size or small.slice_size > failed * APART:
        return None
    line = _line([small, large])
    fixed = _usual(small) if line is None else int(line.fixed)
    if fixed < NEARLY_ALL * limit:
        return None
    return UnslicedPart(bytes=fixed, limit_bytes=limit)


def below(ceiling: int) -> int:
    """The largest slice worth trying when ``ceiling`` samples (2 or more) failed."""
    return max(1, min(ceiling - 1, int(ceiling * BELOW_FAILED)))


def smallest_failure(observations: Sequence[Observation]) -> int | None:
    """The smallest slice that failed under the present limit, or a larger one."""
    if not observations:
        return None
    limit = observations[-1].limit_bytes
    failed = [
        seen.slice_size
        for seen in observations
        if seen.failed
        and (limit is None or seen.limit_bytes is None or seen.limit_bytes >= limit)
    ]
    return min(failed) if failed else None


def _comparable(observations: Sequence[Observation]) -> list[Observation]:
    """Those that had the present limit and compilation, and whose peak is known."""
    last = observations[-1]
    return [
        seen
        for seen in observations
        if seen.peak_bytes is not None
        and seen.limit_bytes == last.limit_bytes
        and seen.jit == last.jit
    ]


@dataclass(frozen=True, slots=True)
class _Line:
    """``peak = fixed + slope * slice``, in bytes."""

    fixed: float
    slope: float

    def worst(self, seen: Observation) -> float:
        """What steps of that size may need at worst, all of the pool counted."""
        added = worst(
            usual=max(0.0, _usual(seen) - self.fixed),
            highest=max(0.0, _peak(seen) - self.fixed),
            steps=seen.steps,
        )
        return self.fixed + added

    def spread(self, seen: Observation) -> float:
        """The worst over what the line says, of what depends on the size; at least 1."""
        added = self.slope * seen.slice_size
        return max(1.0, (self.worst(seen) - self.fixed) / added)


def _modelled(
    measured: Sequence[Observation], ceiling: int, *, measured_only: bool
) -> int | None:
    """The slice to aim at by the peaks; None: there is no line through them.

    ``measured``: one for each size, the smallest first. ``ceiling``: a size that failed.
    ``measured_only``: none larger than was measured.
    """
    fitted = [seen for seen in measured if seen.slice_size < ceiling]
    known = fitted if len(fitted) > 1 else measured
    limit = known[-1].limit_bytes if known else None
    line = _line(known)
    if limit is None or line is None:
        return None
    near = NEAR * max((seen.slice_size for seen in fitted), default=0)
    spread = max(line.spread(seen) for seen in known if seen.slice_size >= near)
    part = min(SAFE_PART, 1 / spread)
    aim = int(part * (limit - line.fixed) / line.slope)
    most = [known[-1].slice_size] if measured_only else []
    return max(1, min([aim, *most]))


def _roomy(measured: Sequence[Observation]) -> float:
    """The largest slice that no peak seen so far rules out, with room for how the peaks
    of one size vary; infinity: none does."""
    tight = [
        seen.slice_size - 1
        for seen in measured
        if seen.limit_bytes is not None
        and 2 * _peak(seen) - _usual(seen) > seen.limit_bytes
    ]
    return max(1, min(tight, default=math.inf))


def _by_size(measured: Sequence[Observation]) -> list[Observation]:
    """One for each size, the smallest first: the lowest of what is usual, the highest
    peak, and all steps."""
    found: dict[int, Observation] = {}
    for seen in measured:
        before = found.get(seen.slice_size, seen)
        found[seen.slice_size] = replace(
            seen,
            peak_bytes=max(_peak(seen), _peak(before)),
            usual_bytes=min(_usual(seen), _usual(before)),
            steps=seen.steps if before is seen else seen.steps + before.steps,
        )
    return [found[size] for size in sorted(found)]


def _peak(seen: Observation) -> int:
    return seen.peak_bytes or 0


def _usual(seen: Observation) -> int:
    return _peak(seen) if seen.usual_bytes is None else seen.usual_bytes


def _line(sizes: Sequence[Observation]) -> _Line | None:
    """Through what is usual at the smallest and the largest; None: it does not rise."""
    if len(sizes) < 2:
        return None
    small, large = sizes[0], sizes[-1]
    rise = _usual(large) - _usual(small)
    if rise <= 0:
        return None
    slope = rise / (large.slice_size - small.slice_size)
    return _Line(fixed=_usual(large) - slope * large.slice_size, slope=slope)


def _sliced_failures(observations: Sequence[Observation], batch: int) -> int:
    return sum(seen.failed and seen.slice_size < batch for seen in observations)
