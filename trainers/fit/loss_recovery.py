"""Recovery from a lost loss: steps passed over, a lower learning rate, as allowed."""

from typing import Any

from trainers.backends import keras_compat
from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt

_END = object()


def draw(batches: Any, count: int) -> int:
    """Draw ``count`` batches and use none of them; how many there were."""
    for drawn in range(count):
        if next(batches, _END) is _END:
            return drawn
    return count


def passed_over(attempt: Attempt, *, until: int) -> None:
    """Tell at the first."""
    if attempt.is_news("passed over"):
        attempt.notice(f"steps up to {until} are passed over: the loss was lost there")


def lower_rate(attempt: Attempt, model: Any) -> None:
    """Multiply the learning rate, once in an attempt; snapshots keep what it is then."""
    factor = attempt.directive.rate_factor
    if factor == 1.0 or not attempt.is_news("rate lowered"):
        return
    rate = keras_compat.learning_rate(model.optimizer)
    if rate is None:
        applied_directive.tell(attempt, "rate_factor", asked=factor, found=1.0)
        attempt.notice("the learning rate follows a schedule: it was not lowered")
        return
    before = float(rate)
    rate.assign(before * factor)
    applied_directive.tell(attempt, "rate_factor", asked=factor, found=factor)
    attempt.notice(f"the learning rate was lowered from {before:g} to {float(rate):g}")
