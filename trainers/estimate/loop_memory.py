"""The memory of a loop of the script's own: its first steps, measured as they are made.

Nothing can be cut or tried there: where a step begins and ends is the script's, and so is
its batch. So the loop itself is run for some steps, and the allocator is read meanwhile: the
answer is the peak of those steps, of that batch alone. What the steps did is done, in a
process that ends with the last of them; nothing is saved.
"""

import math
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory
from trainers.backends import slicing
from trainers.backends.selected import backend
from trainers.process import signals
from trainers.process.attempt_reporting import Attempt

STEPS = range(8, 60)
"""That are measured, after the first."""
SECONDS = 10.0
"""So long more of them than the least are made."""
ONE_BATCH = (
    "the script trains in a loop of its own, whose batch nobody can cut: it is estimated as it"
    " is, without {}"
)


class LoopParts:
    """What is known of what the loop trains, by what it is."""

    def __init__(self) -> None:
        self.model: list[Any] = []
        """Variables."""
        self.trained: list[Any] = []
        """Those of them that training changes."""
        self.optimizer: list[Any] = []
        self.other: list[Any] = []
        self.optimizers: list[str] = []
        """Their classes."""

    def add(self, part: Any) -> None:
        """A model, an optimizer, a metric, or a ``tf.Module``."""
        if hasattr(part, "apply_gradients"):
            self.optimizer += part.variables
            self.optimizers.append(type(part).__name__)
        elif hasattr(part, "trainable_variables") and not hasattr(part, "update_state"):
            self.model += part.variables
            self.trained += part.trainable_variables
        else:
            self.other += part.variables


class LoopMeasurement:
    """The first steps of one loop."""

    def __init__(self, attempt: Attempt, parts: LoopParts) -> None:
        """``parts``: all made, the optimizer's variables as well."""
        self._attempt, self._parts = attempt, parts
        self._peaks: list[int] = []
        """Of each step, in use at most."""
        self._seconds: list[float] = []
        self._between = 0
        """In use between two steps, the last time."""
        self._batch: tuple[int, int] = 1, 0
        """Samples and bytes of the largest that was seen."""
        self._shapes: set[Any] = set()
        self._refuse_what_needs_cutting()
        attempt.enter(Phase.BETWEEN)
        backend.trials.reset_peak()
        self._before = backend.trials.in_use() or 0
        self._began = self._stepped = time.monotonic()

    def _refuse_what_needs_cutting(self) -> None:
        directive = self._attempt.directive
        asked = {"--batch": directive.estimate_batch, "--jit": directive.estimate_jit}
        options = [name for name, value in asked.items() if value is not None]
        if options:
            self._attempt.say(
                RecordKind.REFUSED,
                reason=RefusalReason.NOT_ESTIMATED,
                sentence=ONE_BATCH.format(" or ".join(options)),
            )
            signals.end_at_once(EXIT_REFUSED)

    def drew(self, batch: Any) -> None:
        """The next step is of ``batch``."""
        leaves = [one for one in slicing.leaves(batch) if getattr(one, "shape", None)]
        if not leaves:
            return
        self._shapes.add(tuple(tuple(one.shape[1:]) for one in leaves))
        found = int(leaves[0].shape[0]), sum(map(_nbytes, leaves))
        self._batch = max(self._batch, found, key=lambda one: one[1])

    def stepped(self) -> None:
        """A step is over; the process ends with the last that is measured."""
        self._attempt.tick()
        peak = backend.trials.peak()
        if peak is not None:
            self._peaks.append(peak)
            self._between = backend.trials.in_use() or 0
        now = time.monotonic()
        self._seconds.append(now - self._stepped)
        done = len(self._seconds) - 1
        late = now - self._began > min(
            SECONDS, self._attempt.directive.estimate_seconds or SECONDS
        )
        if done >= STEPS.stop or (done >= STEPS.start and late):
            self.over()
        backend.trials.reset_peak()
        self._stepped = time.monotonic()

    def over(self) -> None:
        """Tell what was measured and end the process; nothing, where there was no step."""
        if not self._peaks:
            return
        self._attempt.say(RecordKind.MODEL_MEMORY, **self._model().to_json())
        added = [max(peak - self._between, 0) for peak in self._peaks]
        step = StepMemory(
            size=self._batch[0],
            added_bytes=max(added),
            least_bytes=min(added),
            step_seconds=self._seconds[-1],
            first_seconds=self._seconds[0],
            steps=len(added),
        )
        self._attempt.say(RecordKind.STEP_MEMORY, **step.to_json())
        self._attempt.say(RecordKind.ESTIMATED, because="")
        signals.end_at_once(0)

    def _model(self) -> ModelMemory:
        """The parts add up to what was in use between the last two steps."""
        parts, (samples, nbytes) = self._parts, self._batch
        weights = _bytes(parts.model) + _bytes(parts.optimizer) + _bytes(parts.other)
        drawn = max(self._between - self._before, nbytes)
        return ModelMemory(
            batch=samples,
            batch_bytes=nbytes,
            parameters=sum(map(_numbers, parts.model)),
            trained=sum(map(_numbers, parts.trained)),
            parameter_bytes=_bytes(parts.model),
            trained_bytes=_bytes(parts.trained),
            optimizer_bytes=_bytes(parts.optimizer),
            optimizer=" and ".join(parts.optimizers),
            other_bytes=_bytes(parts.other),
            data_bytes=max(self._between - weights - drawn, 0),
            drawn_bytes=drawn,
            jit=False,
            jit_possible=False,
            backend="tensorflow",
            shapes=max(len(self._shapes), 1),
            own_steps=len(self._seconds),
        )


def _nbytes(leaf: Any) -> int:
    if hasattr(leaf, "nbytes"):
        return int(leaf.nbytes)
    return math.prod(leaf.shape) * int(getattr(leaf.dtype, "size", 1) or 1)


def _numbers(variable: Any) -> int:
    return math.prod(variable.shape)


def _bytes(variables: Iterable[Any]) -> int:
    """Each counts once, whichever part it was found in."""
    return sum(_numbers(one) * _item_bytes(one) for one in variables)


def _item_bytes(variable: Any) -> int:
    return np.dtype(backend.values.dtype_of(variable)).itemsize
