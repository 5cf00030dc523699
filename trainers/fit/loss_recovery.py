"""Getting round the place where the loss was lost, as far as the spec allows it."""

from typing import Any

from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt

_END = object()


def draw(batches: Any, count: int) -> int:
    """Draw ``count`` batches and use none of them; how many there were."""
    for drawn in range(count):
        if next(batches, _END) is _END:
            return drawn
    return count


def passed_over(attempt: Attempt, *, steps: int, until: int) -> None:
    """Count them, and tell at the first."""
    attempt.passed_over += steps
    if attempt.passed_over == steps:
        attempt.notice(f"steps up to {until} are passed over: the loss was lost there")


def lower_rate(session: Any, model: Any) -> None:
    """Multiply the learning rate, once in an attempt; snapshots keep what it is then."""
    attempt = session.attempt
    factor = attempt.directive.rate_factor
    if factor == 1.0 or attempt.rate_lowered:
        return
    attempt.rate_lowered = True
    rate: Any = getattr(model.optimizer, "_learning_rate", None)
    if not hasattr(rate, "assign"):
        applied_directive.tell(attempt, "rate_factor", asked=factor, found=1.0)
        attempt.notice("the learning rate follows a schedule: it was not lowered")
        return
    before = float(rate)
    rate.assign(before * factor)
    applied_directive.tell(attempt, "rate_factor", asked=factor, found=factor)
    attempt.notice(f"the learning rate was lowered from {before:g} to {float(rate):g}")
