"""What the attempts of a run showed about memory, for the planner of slices."""

from collections.abc import Iterator
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import Observation

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


def observations(history: History) -> tuple[Observation, ...]:
    """Of each attempt whose batch is known, oldest first: the sizes that it measured,
    and last the one that it ended with."""
    return tuple(
        seen
        for attempt in history.attempts
        if attempt.batch is not None
        for seen in _of(attempt, attempt.slice_size or attempt.batch)
    )


def _of(attempt: AttemptHistory, last_size: int) -> Iterator[Observation]:
    at_the_end = None
    for one in attempt.peaks:
        seen = Observation(
            slice_size=one.slice_size,
            peak_bytes=one.highest_bytes,
            usual_bytes=one.usual_bytes,
            steps=one.steps,
            failed=False,
            limit_bytes=attempt.limit_bytes,
            jit=attempt.jit,
        )
        if one.slice_size == last_size:
            at_the_end = seen
        else:
            yield seen
    yield replace(
        at_the_end or _ending(attempt, last_size), failed=attempt.cause in FOR_MEMORY
    )


def _ending(attempt: AttemptHistory, size: int) -> Observation:
    """Of a size that it did not measure: where it measured others, their peak is not
    that of this one."""
    return Observation(
        slice_size=size,
        peak_bytes=None if attempt.peaks else attempt.peak_bytes,
        failed=False,
        limit_bytes=attempt.limit_bytes,
        jit=attempt.jit,
    )
