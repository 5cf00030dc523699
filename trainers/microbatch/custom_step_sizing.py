"""The batch that would fit a model with a ``train_step`` of its own.

Nobody knows what such a step does with its batch (a contrast between samples, several
optimizers), so the batch is not worked through in slices, nor made smaller unasked
(``rebatch_step``). But what the step needs for smaller batches can be measured, and a
person be told of a size.
"""

from collections.abc import Callable, Iterator
from typing import Any

from trainers.backends import slicing
from trainers.backends.selected import backend
from trainers.microbatch import calibration, calibration_run


def fitting(
    model: Any, batch: Any, *, failed: int, limit_bytes: int | None
) -> int | None:
    """About how many samples fit into a batch; None: it cannot be told.

    Trains ``model``, so it is for a process that will not go on. ``batch``: what
    ``train_step`` takes; ``failed``: as many samples did not fit.
    """
    if limit_bytes is None or not backend.fit.has_own_train_step(model):
        return None
    if backend.fit.replicas_of(model) > 1:
        return None  # a step of one device's own says nothing of all
    tried = list(_trials(model, batch, failed=failed, limit_bytes=limit_bytes))
    return calibration.settled(tried, limit_bytes=limit_bytes) if tried else None


def _trials(
    model: Any, batch: Any, *, failed: int, limit_bytes: int
) -> Iterator[calibration.Need]:
    """What batches need, from a small one to the largest that is sure to fit."""
    step = backend.slices.computed_by(model, model.train_step)
    size: int | None = calibration.first_trial(batch=failed, ceiling=failed)
    while size is not None:
        readings = _readings(step, batch, size)
        if not readings:
            return  # what was measured before holds
        (need,) = calibration.needs({size: readings})
        yield need
        size = calibration.next_trial(
            need, batch=failed, ceiling=failed, limit_bytes=limit_bytes
        )


def _readings(
    step: Callable[[Any], Any], batch: Any, size: int
) -> list[calibration.Readings]:
    """The pool around some steps of ``size`` samples; the first, which traces, is left
    out.

    None at all: a step failed, or nothing can be measured.
    """
    readings: list[calibration.Readings] = []
    for _ in range(1 + calibration_run.STEPS_ON_THE_WAY):
        backend.slices.reset_peak()
        before = backend.slices.peak()
        if not _done(step, batch, size):
            return []
        after = backend.slices.peak()
        if before is None or after is None:
            return []
        readings.append(calibration_run.readings_of(before, after, None))
    return readings[1:]


def _done(step: Callable[[Any], Any], batch: Any, size: int) -> bool:
    """Whether the step came to its end."""
    try:
        backend.slices.wait(step(slicing.cut(batch, 0, size)))
    except Exception:  # noqa: BLE001  # the script's code and data, short of memory
        return False
    return True
