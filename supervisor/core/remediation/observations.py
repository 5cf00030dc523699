"""Observations of memory in the attempts of a run, for the planner of slices."""

from collections.abc import Iterator
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.memory.fit_memory import FitMemory, same_work
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import Observation
from supervisor.wire.records.oom_subject import OomSubject

FOR_MEMORY = frozenset(
    {
        Cause.DEVICE_OOM,
        Cause.DEVICE_OOM_FRAGMENTATION,
        Cause.CUDNN_ALLOC,
        Cause.CUDNN_INIT,
        Cause.CUBLAS,
    }
)
"""Attempts that ended so count as failures of their slice."""


SLICED_AWAY = frozenset({None, OomSubject.STEP})
"""What slices of the batch can help with; None: nobody could tell what it was."""


def observations(history: History) -> tuple[Observation, ...]:
    """What is known of the newest call of ``fit``, oldest first: of each attempt that
    had its batch, and of each earlier call like it, the sizes that it measured, and
    last the one that it ended with."""
    known = [attempt for attempt in history.ends if attempt.batch is not None]
    return tuple(
        observation
        for attempt in known
        for seen, failed in _seen(attempt)
        if seen.size is not None and same_work(seen, known[-1].fit_memory)
        for observation in _of(seen, seen.size, failed=failed)
    )


def _of(seen: FitMemory, last_size: int, *, failed: bool) -> Iterator[Observation]:
    """A size that it did not measure has no peak where it measured others: theirs is not
    that of this one."""
    unmeasured = Observation(
        slice_size=last_size,
        peak_bytes=None if seen.peaks else seen.peak_bytes,
        failed=False,
        limit_bytes=seen.limit_bytes,
        jit=seen.jit,
    )
    measured = {
        one.slice_size: replace(
            unmeasured,
            slice_size=one.slice_size,
            peak_bytes=one.highest_bytes,
            usual_bytes=one.usual_bytes,
            steps=one.steps,
        )
        for one in seen.peaks
    }
    at_the_end = measured.pop(last_size, unmeasured)
    yield from measured.values()
    yield replace(at_the_end, failed=failed)


def failed_elsewhere(history: History) -> bool:
    """Whether another call of ``fit`` than the newest ran out of memory: the slices in
    force may be its own, and say nothing about this one."""
    known = [attempt for attempt in history.ends if attempt.batch is not None]
    return any(
        failed and not same_work(seen, known[-1].fit_memory)
        for attempt in known
        for seen, failed in _seen(attempt)
    )


def _seen(attempt: AttemptHistory) -> Iterator[tuple[FitMemory, bool]]:
    """The calls of an attempt, and whether it ran out of memory in a step of them."""
    for earlier in attempt.earlier_fits:
        yield earlier, False
    failed = attempt.cause in FOR_MEMORY and attempt.subject in SLICED_AWAY
    yield attempt.fit_memory, failed
