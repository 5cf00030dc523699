"""The first ``fit`` of a script, measured and not trained.

Keras' own ``fit`` is called as the script calls it, and stopped where it has made its epoch
iterator: model and data are then what they would be, and no callback of the script's was
told of anything. Some steps are tried there, and the process ends without another line of
the script.
"""

import functools
import inspect
import time
from typing import Any, NoReturn

from supervisor.wire.directive import EXIT_REFUSED
from supervisor.wire.estimate_records import StepMemory
from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from trainers.backends import epoch_iterator, keras_compat
from trainers.backends.base import StepTrial, TrialPlan
from trainers.backends.selected import backend
from trainers.data import source_factory
from trainers.estimate import model_memory, seen_data, trial_sizes
from trainers.estimate.seen_data import SeenData
from trainers.estimate.trial_sizes import TrialLimits, TriedSize
from trainers.process import signals
from trainers.process.attempt_reporting import Attempt
from trainers.state import model_build

STEPS = range(4, 40)
"""Of a trial, after the first: which operations run at once differs from step to step, and
the allocator's pool gets untidier; the highest of them counts."""
STEPS_SECONDS = 3.0
"""So long more of them than the least are made."""
STEPS_SECONDS_OF_BATCH = 10.0
"""... where it is the batch itself."""
SEVERAL_DEVICES = (
    "this fit trains on several devices at once: an estimate is made for one; run the"
    " script without its strategy"
)


def refuse(attempt: Attempt, sentence: str) -> NoReturn:
    """End at once: it cannot be estimated, as the sentence says."""
    attempt.say(
        RecordKind.REFUSED, reason=RefusalReason.NOT_ESTIMATED, sentence=sentence
    )
    signals.end_at_once(EXIT_REFUSED)
    raise AssertionError  # the process has ended


def measure(
    attempt: Attempt,
    original: Any,
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> NoReturn:
    """Measure what this call of ``fit`` needs, and end the process.

    Raises what Keras or the script's model raises.
    """
    wrong = backend.fit.self_test()
    if wrong:
        refuse(attempt, f"Keras is not as expected inside ({'; '.join(wrong)})")
    backend.fit.replace_epoch_iterator()
    arguments = inspect.signature(original).bind(model, *args, **kwargs).arguments
    why = backend.fit.why_not_followed(model, arguments.get("x"))
    if why is not None:
        refuse(attempt, f"this fit cannot be estimated: {why}")
    if backend.trials.WHY_NOT is not None:
        refuse(attempt, f"this fit cannot be estimated: {backend.trials.WHY_NOT}")
    if backend.fit.replicas_of(model) > 1:
        refuse(attempt, SEVERAL_DEVICES)
    with epoch_iterator.adopting(functools.partial(_measure, attempt, model)):
        original(model, *args, **kwargs)
    raise AssertionError  # every fit makes an epoch iterator first


def _measure(attempt: Attempt, model: Any, iterator: Any) -> NoReturn:
    attempt.enter(Phase.BETWEEN)
    source = source_factory.source_of(iterator, seed=attempt.directive.seed, fit=0)
    asked_jit = attempt.directive.estimate_jit
    if asked_jit is not None:
        model.jit_compile = asked_jit
        model.train_function = None
    _build(model, source, iterator)
    before = backend.trials.in_use()
    seen = seen_data.seen(iterator, source)
    Measurement(attempt, model, source.element_spec, seen, before).run()
    signals.end_at_once(0)
    raise AssertionError  # the process has ended


def _build(model: Any, source: Any, iterator: Any) -> None:
    """As far as that goes: where it does not, the first trial says why."""
    if source.element_spec is None:  # no pipeline: Keras looks at a batch
        keras_compat.build_by(model, iterator)
        return
    try:
        model_build.build_for_slices(model, source.element_spec)
    except model_build.UnbuildableError:
        return


class Measurement:
    """The trials of one model."""

    def __init__(
        self,
        attempt: Attempt,
        model: Any,
        element_spec: Any,
        seen: SeenData,
        before: int | None,
    ) -> None:
        """``before``: bytes in use before the data were iterated."""
        self._attempt, self._model, self._spec = attempt, model, element_spec
        self._seen, self._before = seen, before
        self._began = time.monotonic()
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
            trial = self._try(size)
            if not tried:
                self._tell_of_model()
            tried.append(self._told(size, trial))
            size, because = trial_sizes.next_size(tried, self._limits())
        self._attempt.say(RecordKind.ESTIMATED, because=because)

    def _try(self, size: int) -> StepTrial:
        batch, short = self._seen.largest, None
        if self._seen.per_sample:
            rest = size * self._seen.rest // self._seen.samples
            if rest and not self._compiles:
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
