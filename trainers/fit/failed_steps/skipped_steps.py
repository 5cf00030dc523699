"""The steps that a remedy leaves out: their batches are drawn, and not trained on."""

import itertools
from typing import Any

from trainers.fit.resume.fit_snapshot import FitParts
from trainers.fit.telemetry.step_counter import planned
from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt
from trainers.snapshots.run_progress import RunProgress


def tell(attempt: Attempt) -> None:
    """Confirm what the directive says of them."""
    skip = attempt.directive.skip
    asked = None if skip is None else list(skip)
    applied_directive.tell(attempt, "skip", asked=asked, found=asked)


def is_next(session: RunProgress) -> bool:
    """Whether the next step of the run is one of them."""
    skip = session.attempt.directive.skip
    return skip is not None and skip[0] <= session.step < skip[1]


def any_ahead(session: RunProgress) -> bool:
    """Whether one of them may still come."""
    skip = session.attempt.directive.skip
    return skip is not None and session.step < skip[1]


def pass_over(session: RunProgress, parts: FitParts, step: int, batches: Any) -> bool:
    """Leave out a call of the train function, which Keras counts as ``step``, and draw
    what it would from ``batches``; False: the data end here, and Keras finds that out."""
    skip = session.attempt.directive.skip
    assert skip is not None  # noqa: S101  # asked before
    source, iterator = parts.source, parts.iterator
    count = planned(iterator, source)
    drawn = sum(1 for _ in itertools.islice(batches, count))
    if drawn < count:
        return False
    source.took(count)
    session.trained(steps=count)
    parts.position.passed_over(count)
    parts.position.comes_to(step + iterator.steps_per_execution)
    parts.loss_guard.passed_over(until=skip[1])
    return True
