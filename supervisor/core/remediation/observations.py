"""What the attempts of a run showed about memory, for the planner of slices."""

from supervisor.core.causes import Cause
from supervisor.core.remediation.history import History
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
    """One for each attempt whose batch is known, oldest first."""
    return tuple(
        Observation(
            slice_size=attempt.slice_size or attempt.batch,
            peak_bytes=attempt.peak_bytes,
            failed=attempt.cause in FOR_MEMORY,
            limit_bytes=attempt.limit_bytes,
            jit=attempt.jit,
        )
        for attempt in history.attempts
        if attempt.batch is not None
    )
