"""Optimizer steps that a script makes outside of ``fit``: told at the first, counted.

The one call that every loop makes is ``Optimizer.apply``. Inside of a ``tf.function`` it is
made while the function is traced and never again, so steps are counted by the optimizer's
own counter, which is looked at once a second.
"""

import atexit
import functools
import threading
import weakref
from types import ModuleType
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase
from trainers.process.attempt_reporting import Attempt

LOOK_SECONDS = 1.0
"""How often the counters are read: from a GPU that waits for its stream."""
UNSAVED = (
    "steps are made outside of fit (a GradientTape loop, train_on_batch): they are"
    " watched and counted, but not saved, and after a restart the script does them again"
    " from its top; `from trainers import session` saves the steps of such a loop"
)


class OwnSteps:
    """The optimizers that were applied outside of ``fit``, and how far they are."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._over = threading.Event()

    def applied(self, optimizer: Any) -> None:
        """``optimizer`` makes a step, or one is traced."""
        if self._attempt.training.running is not None or optimizer in self._optimizers:
            return
        first = not self._optimizers
        self._optimizers.add(optimizer)
        if first:
            self._begin()

    def _begin(self) -> None:
        self._attempt.say(RecordKind.PROMISE, fit=None, bits=False, sentence=UNSAVED)
        looking = threading.Thread(
            target=self._look, name="trainwarden-own-steps", daemon=True
        )
        looking.start()
        # Not while the framework is taken apart: its variables are gone then.
        atexit.register(self._end, looking)

    def _end(self, looking: threading.Thread) -> None:
        self._over.set()
        looking.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if self._attempt.training.running is None:
                self._publish()

    def _counters(self) -> list[Any]:
        """The optimizers themselves are let go of at once: a model that the script drops
        while its counter is read, which may take a moment, must be gone."""
        return [getattr(one, "iterations", None) for one in list(self._optimizers)]

    def _publish(self) -> None:
        done = max(map(counted, self._counters()), default=0)
        if done:
            if self._attempt.phase is Phase.STARTING:
                self._attempt.enter(Phase.BETWEEN)
            self._attempt.set(step=done)


def counted(counter: Any) -> int:
    """Steps by an optimizer's ``counter``; 0 where it cannot be read (now)."""
    try:
        return int(counter.numpy())
    except Exception:  # noqa: BLE001  # a counter of somebody's own, or one in the making
        return 0


def hook(attempt: Attempt, module: ModuleType) -> None:
    """Listen to ``Optimizer.apply`` of ``keras.src.optimizers.base_optimizer``."""
    steps = OwnSteps(attempt)
    base = module.BaseOptimizer
    original = base.apply

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.applied(self)
        return original(self, *args, **kwargs)

    base.apply = apply
