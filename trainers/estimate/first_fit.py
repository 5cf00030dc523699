"""The first ``fit`` of a script, measured and not trained.

It is held at its epoch iterator (``held_fit``), and some steps of several sizes are tried
there.
"""

import time
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.estimate_records import StepMemory
from trainers.backends.selected import backend
from trainers.backends.trial_support import StepTrial, TrialPlan
from trainers.estimate import model_memory, seen_data, trial_sizes
from trainers.estimate.seen_data import SeenData
from trainers.estimate.trial_sizes import TrialLimits, TriedSize
from trainers.fit.held_fit import FitMeasurement, HeldFit
from trainers.process.attempt_reporting import Attempt

STEPS = range(4, 40)
"""Of a trial, after the first: which operations run at once differs from step to step, and
the allocator's pool gets untidier; the highest of them counts."""
STEPS_SECONDS = 3.0
"""So long more of them than the least are made."""
STEPS_SECONDS_OF_BATCH = 10.0
"""... where it is the batch itself."""


def _change(attempt: Attempt, model: Any) -> None:
    asked_jit = attempt.directive.estimate_jit
    if asked_jit is not None:
        model.jit_compile = asked_jit
        model.train_function = None


def _measure(held: HeldFit) -> None:
    before = backend.trials.in_use()
    seen = seen_data.seen(held.iterator, held.source)
    Measurement(held, seen, before).run()


MEASUREMENT = FitMeasurement(
    reason=RefusalReason.NOT_ESTIMATED,
    impossible="this fit cannot be estimated: {}",
    several_devices=None,
    why_not=lambda: backend.trials.WHY_NOT,
    change=_change,
    measure=_measure,
)


class Measurement:
    """The trials of one model."""

    def __init__(self, held: HeldFit, seen: SeenData, before: int | None) -> None:
        """``before``: bytes in use before the data were iterated."""
        attempt, model = held.attempt, held.model
        self._attempt, self._model = attempt, model
        self._spec = held.source.element_spec
        self._seen, self._before = seen, before
        self._began = time.monotonic()
        self._devices = backend.fit.replicas_of(model)
        directive = attempt.directive
        self._seconds = directive.estimate_seconds or 0.0
        self._batch = directive.estimate_batch or seen.samples
        self._limit = directive.memory_limit_bytes
        self._compiles = backend.trials.COMPILES or bool(model.jit_compile)

    def run(self) -> None:
        """Try size after size, and tell what each needs."""
        size: int | None = trial_sizes.first_size(self._batch, compiles=self._compiles)
        if not self._seen.per_sample:
            self._batch = size = self._seen.samples
        tried: list[TriedSize] = []
        because = ""
        while size is not None:
            size = self._for_each_device(size)
            trial = self._try(size)
            if not tried:
                self._tell_of_model()
            tried.append(self._told(size, trial))
            size, because = trial_sizes.next_size(tried, self._limits())
        self._attempt.say(RecordKind.ESTIMATED, because=because)

    def _for_each_device(self, size: int) -> int:
        """``size``, or more: no device is without samples, as it is in training."""
        return min(-(-size // self._devices) * self._devices, max(self._batch, size))

    def _try(self, size: int) -> StepTrial:
        batch, short = self._seen.largest, None
        if self._seen.per_sample:
            rest = size * self._seen.rest // self._seen.samples
            if rest >= self._devices and not self._compiles:
                short = backend.trials.sized(batch, rest)
            batch = backend.trials.sized(batch, size)
        if size == self._seen.samples and self._seen.another is not None:
            short = self._seen.another
        self._attempt.tick()
        plan = TrialPlan(
            element_spec=self._spec,
            least=STEPS.start,
            most=STEPS.stop,
            seconds=STEPS_SECONDS_OF_BATCH if size == self._batch else STEPS_SECONDS,
        )
        return backend.trials.tried(self._model, batch, short, plan)

    def _tell_of_model(self) -> None:
        """All that a step makes is there now."""
        backend.trials.trained_once(self._model)
        told = model_memory.of(self._model, self._seen, before=self._before)
        self._attempt.say(RecordKind.MODEL_MEMORY, **told.to_json())

    def _told(self, size: int, trial: StepTrial) -> TriedSize:
        added = max(trial.added_bytes, default=0)
        told = StepMemory(
            size=size,
            added_bytes=added,
            least_bytes=min(trial.added_bytes, default=0),
            step_seconds=trial.step_seconds,
            first_seconds=trial.first_seconds,
            steps=len(trial.added_bytes),
        )
        self._attempt.say(RecordKind.STEP_MEMORY, **told.to_json())
        return TriedSize(
            size=size,
            added_bytes=added,
            step_seconds=trial.step_seconds,
            first_seconds=trial.first_seconds,
        )

    def _limits(self) -> TrialLimits:
        in_use = backend.trials.in_use() or 0
        room = 2**62 if self._limit is None else self._limit - in_use
        return TrialLimits(
            batch=self._batch,
            room_bytes=room,
            seconds=self._seconds - (time.monotonic() - self._began),
            steps=STEPS.start,
            compiles=self._compiles,
        )
