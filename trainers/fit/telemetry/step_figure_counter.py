"""The evidence of how steps spend their time: counted at each, told now and then.

The wait for data cannot be timed from here: TensorFlow draws the batch inside of the
compiled step. But a pipeline counts its gaps: the time from one batch handed out to the
next one asked for, in which nobody waits for it. What lies between the beginnings of two
steps is gaps and waits, so the waits are what is left.
"""

import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.step_evidence import StepEvidence
from trainers.backends import computing_device
from trainers.backends.selected import backend
from trainers.fit.telemetry.step_counter import DoneSteps
from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import framework_setup

UNSETTLED_STEPS = 3
"""The first steps of a fit trace, compile and fill caches: they do not count."""
LOOK_SECONDS = 1.0
"""How often a pipeline is asked for its gaps: that takes 0.1 ms."""
FEWEST_STEPS = 8
"""A look over fewer steps tells nothing."""
MOST_STEPS = 100
"""So many gaps a pipeline remembers."""
TELL_SECONDS = 2.0
TELL_SECONDS_MOST = 60.0
"""The evidence is told after so many seconds, then after twice as many, and so on."""


class StepFigureCounter:
    """What is counted in one ``fit``, or loop of the script's own."""

    def __init__(self, attempt: Attempt, *, fit: int | None) -> None:
        self._attempt, self._fit = attempt, fit
        self._seen = self._seen_before = 0
        """Steps so far, and before the first that counts."""
        self._begins: deque[tuple[float, int]] = deque(maxlen=MOST_STEPS + 1)
        """When steps began, and how many there were before."""
        self._looked_at_step = 0
        self._since: float | None = None
        self._until = self._look_due = self._tell_due = 0.0
        self._tell_every = TELL_SECONDS
        self._steps = self._told_steps = 0
        self._data = (0, 0.0, 0.0)
        """Steps over which waits were measured, what they took, and the waits."""
        self._tracing = backend.evidence.tracing_clock()
        self._traced_before = 0
        self._traced_steps = self._traced_micros = 0
        self._of_model: dict[str, Any] = {}
        self._looks_before = 0
        self._found_before: Counter[str] = Counter()

    def look_into(
        self, model: Any, element_spec: Any, *, batch: int | None, in_memory: bool
    ) -> None:
        """The first step is made, and its functions are traced. ``in_memory``: the data
        are arrays."""
        self._of_model["in_memory"] = in_memory
        found = backend.evidence.float64_products(model)
        if found is not None:
            self._of_model |= dict(
                zip(("float64_operations", "products"), found, strict=True)
            )
        meant = backend.evidence.float64_is_meant()
        self._of_model["float64_meant"] = meant
        if not meant:
            size, names = backend.evidence.wide_inputs(element_spec, batch=batch)
            self._of_model |= {"wide_input_bytes": size, "wide_inputs": names}

    def count(self, done: Iterable[DoneSteps]) -> None:
        """These were done since."""
        seen, begins = self._seen, self._begins
        for began, _, steps in done:
            begins.append((began, seen))
            seen += steps
        self._seen = seen

    def look(self, *, steps: int, batches: Any = None) -> bool:
        """After some that were counted, the last ``steps`` in one execution, on what the
        iterator ``batches`` handed out: tell what is due. Whether a function was traced
        since the last look: then the next step is to be looked at, as it may trace, too."""
        began, before = self._begins[-1]
        if self._since is None and before >= UNSETTLED_STEPS:
            self._begin(began, before)
        traced = self._trace(steps)
        if self._since is None:
            return traced
        self._until, self._steps = time.perf_counter(), self._seen - self._seen_before
        if self._until >= self._look_due and not traced:
            self._look_due = self._until + LOOK_SECONDS
            self._look(backend.evidence.gaps(batches), within=steps)
        if self._until >= self._tell_due:
            self.tell()
        return traced

    def _begin(self, began: float, before: int) -> None:
        """With the last step, which ``began`` then, ``before`` others."""
        self._since, self._seen_before = began, before
        self._looked_at_step = before
        self._look_due, self._tell_due = began + LOOK_SECONDS, began + TELL_SECONDS
        if (writes := self._attempt.writes) is not None:
            self._looks_before = writes.looks
            self._found_before = Counter(writes.found)

    def _trace(self, steps: int) -> bool:
        """Whether a function was traced since the last look: counted as one of the last
        step, better too few than too many."""
        if self._tracing is None:
            return False
        now = self._tracing()
        micros, self._traced_before = now - self._traced_before, now
        if micros and self._steps:
            self._traced_steps += steps
            self._traced_micros += micros
        return micros > 0

    def _look(self, gaps: Sequence[float] | None, *, within: int) -> None:
        """How long the steps waited since the last look, by the ``gaps`` between the
        batches up to now, of which the last step drew ``within``."""
        if gaps is None:
            return
        known = gaps[: len(gaps) - (within - 1)]
        end, last = self._begins[-1]
        fewest = max(last - len(known), self._looked_at_step)
        windows = itertools.dropwhile(lambda one: one[1] < fewest, self._begins)
        start, first = next(windows)
        count = last - first
        if count < FEWEST_STEPS:
            return
        self._looked_at_step = last
        took = end - start
        waited = min(max(took - sum(known[-count:]), 0.0), took)
        steps, seconds, waits = self._data
        self._data = steps + count, seconds + took, waits + waited

    def tell(self) -> None:
        """Tell what was counted so far, if there is anything new."""
        if self._since is None or self._steps == self._told_steps:
            return
        self._told_steps = self._steps
        self._tell_due = self._until + self._tell_every
        self._tell_every = min(2 * self._tell_every, TELL_SECONDS_MOST)
        data_steps, data_seconds, wait_seconds = self._data
        traced = self._tracing is not None
        evidence = StepEvidence(
            fit=self._fit,
            steps=self._steps,
            seconds=self._until - self._since,
            data_steps=data_steps,
            data_seconds=data_seconds,
            wait_seconds=wait_seconds,
            on_cpu=backend.evidence.computes_on_cpu(),
            finds_no_gpu=self._finds_no_gpu(),
            traced_steps=self._traced_steps if traced else None,
            trace_seconds=self._traced_micros / 1e6,
            **self._writes(),
            **self._of_model,
        )
        self._attempt.say(RecordKind.EVIDENCE, **evidence.to_json())

    def _finds_no_gpu(self) -> bool:
        """Whether it looked for one, and there was none for it."""
        wanted = not framework_setup.on_cpu(self._attempt.directive)
        if not wanted or computing_device.is_without_gpu(os.environ):
            return False
        return backend.fit.finds_no_gpu()

    def _writes(self) -> dict[str, Any]:
        """How often the training thread was found in a write since it began."""
        writes = self._attempt.writes
        if writes is None:
            return {}
        # A copy, in one call: the heartbeat adds to it.
        found = Counter(writes.found) - self._found_before
        return {
            "write_looks": writes.looks - self._looks_before,
            "writing_looks": found.total(),
            "written_file": max(found, key=found.__getitem__, default=""),
        }
