"""The reports of a running ``fit``: the page at each step, all else now and then."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.selected import backend
from trainers.fit.telemetry.first_fit_needs import FirstFitNeeds, FitSubject
from trainers.fit.telemetry.phase_recorder import PhaseRecorder
from trainers.fit.telemetry.step_counter import DoneSteps
from trainers.process.attempt_reporting import Attempt, PageReporter

SELDOM_SECONDS = 0.5
"""How often what costs something is read; memory more seldom where it costs more."""

SETTLED_STEPS = 3
"""Steps after which the peak of memory is worth telling."""

NOTABLE = 1.01
"""A peak is told again once it rose by this factor."""


def _whole() -> tuple[int, int | None]:
    """No slices, of no known size."""
    return 1, None


def promise(attempt: Attempt, because: str | None, *, fit: int | None) -> None:
    """Say whether call ``fit`` is exact to the bit; ``because``: why it is not."""
    sentence = because or "exact to the bit"
    attempt.say(RecordKind.PROMISE, fit=fit, bits=because is None, sentence=sentence)


class Report:
    """The reporting of one ``fit``."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._began_with: dict[str, Any] = {}
        self._began = time.perf_counter()
        self._read_at = 0.0
        self._steps = 0
        self._told_peak = 0
        self._slicing: Callable[[], tuple[int, int | None]] = _whole
        self._jit = False
        self._reduced = False
        self._told_slices: tuple[int, int | None] = (0, None)
        self._probe = backend.memory_probe(attempt, limit_bytes=memory_limit(attempt))
        self.phases = PhaseRecorder(attempt.say, self._probe.mark)
        """What the phases of an epoch take of memory."""
        self._needs = FirstFitNeeds(attempt)

    def fit_began(
        self, *, batch: int | None, model: str | None = None, **fields: Any
    ) -> None:
        """``fit`` knows its data: ``fit, epochs, steps_per_epoch``; ``model``: a digest
        (``model_digest``)."""
        self._attempt.enter(Phase.COMPILING)
        self._began_with = {
            "model": model,
            "sliceable": backend.fit.SLICES,
            **fields,
        }
        self._attempt.set(effective_batch=batch, **fields)
        self._attempt.say(RecordKind.FIT_BEGAN, batch=batch, **self._began_with)

    def batch_known(self, batch: int) -> None:
        """The first batch is drawn, and ``fit_began`` did not know its size.

        Told before the step runs, which may end the process. Called by any thread.
        """
        self._attempt.say(RecordKind.FIT_BEGAN, batch=batch, **self._began_with)
        if not self._reduced:
            self._attempt.set(effective_batch=batch)

    def promise(self, because: str | None) -> None:
        """Whether the result will be the same bit for bit after a restart."""
        promise(self._attempt, because, fit=self._began_with.get("fit"))

    def measure(
        self,
        slicing: Callable[[], tuple[int, int | None]],
        *,
        jit: bool,
        reduced: bool = False,
    ) -> None:
        """From here on memory is that of steps. ``slicing``: slices and their size;
        ``reduced``: each slice is a batch of its own, with an update."""
        self._reduced = reduced
        self._slicing, self._jit = slicing, jit
        self._attempt.set(jit=int(jit))
        self._probe.begin()
        self._publish_slices()
        self._began = time.perf_counter()

    def steps_ahead(self, subject: FitSubject) -> None:
        """The first step is next."""
        self._needs.begin(subject, limit=self._limit, slices=self._slicing()[0])

    def _limit(self) -> int | None:
        return memory_limit(self._attempt) or self._probe.limit()

    def steps_over(self, step: int) -> None:
        """An epoch has no more steps: what comes next would be in the peak of the first."""
        if self._needs.waits and self._steps:
            self._tell_needs(self._probe.look(step=step))

    def _tell_needs(self, reading: Figures | None) -> None:
        self._needs.stepped(reading, slices=self._told_slices[0])

    def over(self) -> None:
        """There are no more steps: nobody is asked any more."""
        self._needs.let_go()
        self._slicing = _whole

    def _publish_slices(self) -> None:
        slices, size = self._slicing()
        if (slices, size) != self._told_slices:
            self._told_slices, self._told_peak = (slices, size), 0
            self._probe.forget()
            self._attempt.set(slices=slices, slice_size=size)
            if self._reduced:
                self._attempt.set(effective_batch=size)

    @property
    def settled(self) -> bool:
        """Whether the steps are done after which the peak of memory is told first."""
        return self._steps > SETTLED_STEPS

    def count(self, done: Sequence[DoneSteps], *, step: int) -> None:
        """These were done, up to ``step`` of the run."""
        if done and not self._steps:  # the first, which compiles
            elapsed = time.perf_counter() - self._began
            self._attempt.say(RecordKind.FIRST_STEP, step=step, seconds=elapsed)
            self._steps, done = done[0][2], done[1:]
        self._attempt.count_steps(done)
        self._steps += sum(steps for _, _, steps in done)

    def look(self, *, logs: Any, step: int) -> None:
        """After a step that was counted: tell what is due."""
        self._attempt.enter(self._attempt.phase_at(step))
        now = time.perf_counter()
        if now - self._read_at >= SELDOM_SECONDS:
            self._read_at = now
            self._attempt.publish_times()
            publish_loss(self._attempt, loss_of(logs), step=step)
        leaving = self._attempt.drain_requested  # the last that is heard of it
        if self._probe.due(now) or self._steps == SETTLED_STEPS or leaving:
            self._memory(step)
        elif now >= self._probe.glance_due:
            self._probe.glance(now, step=step)

    def _memory(self, step: int) -> None:
        self._publish_slices()
        reading = self._probe.look(step=step)
        if self._steps >= SETTLED_STEPS:
            self._tell_needs(reading)
        if reading is None:
            return
        peak, limit = reading.peak, memory_limit(self._attempt)
        slices, size = self._told_slices
        settled = self._steps >= SETTLED_STEPS and peak > NOTABLE * self._told_peak
        if settled and slices == 1:  # microbatching tells of its own peaks
            self._told_peak = peak
            self._attempt.say(
                RecordKind.PEAK,
                slice_size=size,
                slices=slices,
                peak_bytes=peak,
                limit_bytes=limit,
                jit=self._jit,
            )

    def epoch_ended(self, *, epoch: int, step: int, logs: Any) -> None:
        """An epoch with its validation is over."""
        self._attempt.publish_times()
        numbers = {name: number(value) for name, value in (logs or {}).items()}
        publish_loss(self._attempt, numbers.get("loss"), step=step)
        self._attempt.say(RecordKind.EPOCH_ENDED, epoch=epoch, step=step, logs=numbers)


def publish_loss(attempt: PageReporter, loss: float | None, *, step: int) -> None:
    """Show the loss, and of which step it is; None: there is none."""
    attempt.set(loss=loss, loss_step=None if loss is None else step)


def memory_limit(attempt: Attempt) -> int | None:
    """The allocator's limit in bytes, where the supervisor set one."""
    directive = attempt.directive
    return directive.memory_limit_bytes or directive.gpu_memory_limit_bytes


def number(value: Any) -> float | None:
    """``value`` as a finite-or-not float; None for what is no single number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def loss_of(logs: Any) -> float | None:
    """The loss among a step's logs."""
    return number(logs.get("loss")) if isinstance(logs, dict) else None
