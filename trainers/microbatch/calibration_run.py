"""The calibration of the slice: its trials, in the first steps of a ``fit``.

What to try next is decided by the rules of ``calibration``; here the pool is read.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from supervisor.wire.page import MemorySource
from supervisor.wire.reasons import SizeSource
from supervisor.wire.slices import ENOUGH_STEPS, balanced
from trainers.backends.memory.allocator_figures import Figures, PeakReading
from trainers.backends.selected import backend
from trainers.microbatch.calibration import (
    FAR,
    Need,
    Readings,
    far_below,
    has_place,
    in_doubt,
    is_daring,
    needs,
    next_trial,
    settled,
)

STEPS = 4
"""Each size is measured over this many steps ..."""

STEPS_ON_THE_WAY = 2
"""... or this many, as long as the next one is far larger anyway."""

STEPS_IN_DOUBT = ENOUGH_STEPS
"""So many where they may show that this size fits, or that a larger one does."""

STEPS_FOR_A_PLACE = 16
"""So many steps a size waits for a free block that holds its largest request."""


def readings_of(
    before: PeakReading, after: PeakReading, figures: Figures | None
) -> Readings:
    """The pool around a step, by what the allocator said."""
    return Readings(
        before=before.current_bytes,
        peak=after.peak_bytes,
        after=after.current_bytes,
        request=None if figures is None else figures.largest_request,
    )


@dataclass(kw_only=True)
class CalibrationRun:
    """Runs the trials between the steps of one ``fit``."""

    size: Any
    seen: Any
    """Both own variables, as ``SliceSupport.step`` takes them."""
    batch: int
    ceiling: int | None
    limit_bytes: int
    steps_a_call: int
    """Keras' ``steps_per_execution``."""
    on_trial: Callable[[int, SizeSource, str], None]
    """Hears of a new size, its source and why, before it is used."""
    on_peak: Callable[..., None]
    """Hears of a size, its peak in bytes, their median (``usual_bytes``) and of how many
    ``steps``."""
    figures: Callable[[], Figures | None]
    """What the allocator's map says."""
    done: bool = False
    daring: bool = False
    """Whether the next step is the first of a size that might not fit."""
    _before: PeakReading | None = None
    _readings: dict[int, list[Readings]] = field(
        default_factory=dict[int, list[Readings]]
    )

    def before_step(self) -> None:
        """Start measuring."""
        self.daring = False
        self.seen.assign(0)
        backend.slices.reset_peak()
        self._before = backend.slices.peak()

    def after_step(self, logs: Any) -> None:
        """Note the peak, and choose the size of the next step."""
        backend.slices.wait(logs)  # where steps are asynchronous
        reading, figures = backend.slices.peak(), self.figures()
        if self._before is None or reading is None:
            return
        if int(self.seen.numpy()) < self.batch:
            return  # a short batch says nothing about a whole one
        size = int(self.size.numpy())
        steps = self._readings.setdefault(size, [])
        steps.append(readings_of(self._before, reading, figures))
        mapped = figures is not None and figures.source is MemorySource.MAP
        free = figures.largest_allocatable if figures and mapped else None
        self._settle_or_go_on(
            size, steps_seen=len(steps) * self.steps_a_call, free_bytes=free
        )

    def _settle_or_go_on(
        self, size: int, *, steps_seen: int, free_bytes: int | None
    ) -> None:
        if steps_seen < STEPS_ON_THE_WAY:
            return
        sizes = needs(self._readings, steps_a_reading=self.steps_a_call)
        need = next(one for one in sizes if one.size == size)
        before = far_below(size, sizes)
        trial = next_trial(need, before=before, **self._known())
        if steps_seen < self._enough(need, before, trial):
            return
        if trial is not None and not has_place(need, trial, free_bytes=free_bytes):
            if steps_seen < STEPS_FOR_A_PLACE:
                return
            trial = None
        peaks = [one.peak for one in self._readings[size]]
        usual = int(statistics.median(peaks))
        self.on_peak(size, max(peaks), usual_bytes=usual, steps=steps_seen)
        if trial is None:
            self.done = True
            final = settled(sizes, limit_bytes=self.limit_bytes)
            final = balanced(batch=self.batch, size=final)
            backend.slices.reset_peak()
            self._use(final, SizeSource.MEASURED, f"measured at {len(sizes)} sizes")
        else:
            self.daring = is_daring(need, trial, limit_bytes=self.limit_bytes)
            self._use(trial, SizeSource.TRIAL, "being measured")

    def _enough(self, need: Need, before: Need | None, trial: int | None) -> int:
        """How many steps have to be seen for ``trial`` to be what follows."""
        if trial is not None:
            return STEPS_ON_THE_WAY if trial >= FAR * need.size else STEPS
        doubtful = in_doubt(need, before=before, **self._known())
        return STEPS_IN_DOUBT if doubtful else STEPS

    def _known(self) -> Any:
        return {
            "batch": self.batch,
            "ceiling": self.ceiling,
            "limit_bytes": self.limit_bytes,
        }

    def _use(self, size: int, source: SizeSource, why: str) -> None:
        self.on_trial(size, source, why)
        self.size.assign(size)
