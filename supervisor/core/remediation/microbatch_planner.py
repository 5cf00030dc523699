"""How to slice a batch so that a step fits into memory.

The rules, in order, after an attempt ran out of memory:

1. A slice as large as one that failed under the same (or a larger) limit is never
   asked for again; one sample is the smallest.
2. Peaks of two sizes under the same limit and compilation give the line
   ``peak = fixed + slope * slice`` (weights, optimizer, data and prefetched batches
   are the fixed part): the plan is the slice at which it reaches the limit, less a
   margin.
3. With less known, the next attempt measures for itself: it climbs from small slices
   in its first steps (``calibrate``), below what failed.
4. Where measured plans failed too, the slice is halved.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.wire.slices import balanced, count

SAFE_PART = 0.96
"""A planned slice is this part of the largest that the line says fits."""

BELOW_FAILED = 0.9
"""... and at most this part of one that failed: what fails once by little, fits at
times, and a plan must not depend on luck."""

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


def next_plan(
    observations: Sequence[Observation], *, batch: int | None
) -> MicrobatchPlan | None:
    """The plan after an OOM; None: nothing smaller is left, or the batch is unknown.

    ``observations``: oldest first; ``batch``: samples in a whole batch.
    """
    ceiling = smallest_failure(observations)
    if batch is None or ceiling is None or ceiling <= 1:
        return None
    modelled = _largest(_comparable(observations))
    if modelled is not None:
        size = min(modelled, below(ceiling))
        because = f"by the peaks measured so far, slices of {size} samples fit"
        return _plan(batch, size, ceiling, calibrate=False, because=because)
    half = max(1, ceiling // 2)
    if _sliced_failures(observations, batch) >= MEASURED_FAILURES:
        because = f"slices of {ceiling} samples failed, although they were measured"
        return _plan(batch, half, ceiling, calibrate=False, because=because)
    because = (
        f"{ceiling} samples at once do not fit: the first steps measure how many do"
    )
    return _plan(batch, half, ceiling, calibrate=True, because=because)


def below(ceiling: int) -> int:
    """The largest slice worth trying when ``ceiling`` samples (2 or more) failed."""
    return max(1, min(ceiling - 1, int(ceiling * BELOW_FAILED)))


def _plan(
    batch: int, size: int, ceiling: int, *, calibrate: bool, because: str
) -> MicrobatchPlan:
    size = balanced(batch=batch, size=size)
    return MicrobatchPlan(
        slice_size=size,
        slices=count(batch=batch, size=size),
        calibrate=calibrate,
        ceiling=ceiling,
        because=because,
    )


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


def _largest(measured: Sequence[Observation]) -> int | None:
    """The slice to aim at by the line through the peaks; None: there is no line."""
    limit = measured[-1].limit_bytes if measured else None
    peaks: dict[int, int] = {}
    for seen in measured:
        peak = seen.peak_bytes or 0
        peaks[seen.slice_size] = max(peak, peaks.get(seen.slice_size, 0))
    if limit is None or len(peaks) < 2:
        return None
    small, large = min(peaks), max(peaks)
    slope = (peaks[large] - peaks[small]) / (large - small)
    if slope <= 0:
        return None
    fixed = peaks[large] - slope * large
    return max(1, int(SAFE_PART * (limit - fixed) / slope))


def _sliced_failures(observations: Sequence[Observation], batch: int) -> int:
    return sum(seen.failed and seen.slice_size < batch for seen in observations)
