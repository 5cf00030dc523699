"""Growth of a slice, where what is known now says that a larger one fits.

Only at a restart that happens anyway, and with hysteresis: after so many steps without
running out of memory, and only by a notable factor. A slice that failed under the same
limit stays out of reach (``microbatch_planner.next_plan``).
"""

from dataclasses import replace

from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import next_plan, smallest_failure
from supervisor.core.remediation.observations import (
    FOR_MEMORY,
    failed_elsewhere,
    observations,
)
from supervisor.core.remediation.overrides import Overrides

SETTLED_STEPS = 200
GROWTH = 1.25
"""At least so much larger, or it is not worth another compilation."""


def regrown(overrides: Overrides, history: History) -> Overrides:
    """``overrides`` with a larger slice, if that is safe to try; else unchanged."""
    plan, last = overrides.plan, history.last
    if plan is None or plan.slice_size is None or plan.calibrate or last is None:
        return overrides
    if last.cause in FOR_MEMORY or _steps(last) < SETTLED_STEPS:
        return overrides
    seen = observations(history)
    if (
        smallest_failure(seen) is None
    ):  # nothing failed under this limit, or in this fit
        return overrides if failed_elsewhere(history) else replace(overrides, plan=None)
    larger = next_plan(seen, batch=history.batch)
    if larger is None or larger.calibrate or larger.slice_size is None:
        return overrides
    if larger.slice_size < GROWTH * plan.slice_size:
        return overrides
    because = f"grown back: {larger.because}"
    return replace(overrides, plan=replace(larger, because=because))


def _steps(attempt: AttemptHistory) -> int:
    """Steps that it did; 0 where that is not known."""
    return (attempt.last_step or 0) - (attempt.restored_step or 0)
