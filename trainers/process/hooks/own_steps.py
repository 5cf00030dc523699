"""Optimizer steps that a script makes outside of ``fit``: followed from the first on.

The one call that every loop makes is ``Optimizer.apply``. Inside of a ``tf.function`` it is
made while the function is traced and never again: the call of such a function is the
first step of a loop, and what follows its calls (``trainers.loops``) is loaded then. Steps
that are not followed are counted and timed by the optimizer's own counter, once a second.
"""

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from supervisor.wire.page import Phase
from trainers.process import applied_directive, crash_report
from trainers.process.attempt_reporting import Attempt
from trainers.process.script import isolation

LOOK_SECONDS = 1.0
"""How often the counters are read: from a GPU that waits for its stream."""
Run = Callable[..., Any]


class StepPace:
    """Times steps that nobody follows: from one look at which their counter had moved to
    the next. Safe from several threads."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._moved: tuple[int, float] | None = None
        """What the counter said when it had moved last, and when that was."""

    def looked(self, done: int) -> None:
        """The counter says ``done``; less than before: a state was restored."""
        with self._lock:
            now, moved = time.monotonic(), self._moved
            if moved is not None and done == moved[0]:
                return
            self._moved = done, now
            if moved is not None and done > moved[0]:
                steps, seconds = done - moved[0], now - moved[1]
                self._attempt.count_own_step(seconds=seconds, steps=steps, done=done)
                self._attempt.publish_times()

    def pause(self) -> None:
        """Others time the steps that are made now."""
        with self._lock:
            self._moved = None


class OwnSteps:
    """The optimizers that were applied outside of ``fit``, and how far they are."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._over = threading.Event()
        self._hooks: Any = None
        """``backends.tensorflow.functions.call_hooks``, once TensorFlow is there."""
        self._loop: Any = None
        """The ``loops.loop_follower.LoopFollower``, once there is a loop."""
        self._calls = 0
        """Of compiled functions, outside of ``fit``."""
        self._in_call = False
        self._stands_back = False
        self._pace = StepPace(attempt)

    def stand_back(self) -> None:
        """Keras computes with JAX or PyTorch: no step of an optimizer is followed, as what
        it is applied to may be a tracer."""
        self._stands_back = True

    # --- steps -----------------------------------------------------------------------

    def applied(self, optimizer: Any) -> None:
        """``optimizer`` makes a step, or one is traced."""
        if self._stands_back or self._attempt.training.running is not None:
            return
        known = optimizer in self._optimizers
        quiet = self._hooks is not None and self._hooks.is_quiet()
        if quiet and not self._in_call:
            return  # within a fit
        self._attempt.makes_own_steps()
        if known:
            return
        first = not self._optimizers
        self._optimizers.add(optimizer)
        eager = self._hooks is None or self._hooks.is_eager()
        if eager or self._loop is not None:
            self._followed().applied(optimizer, eager=eager)
        if first:
            applied_directive.tell_own_loop(self._attempt)
            self._begin()

    def _followed(self) -> Any:
        if self._loop is None:
            module = isolation.load("trainers.loops.loop_follower")
            self._loop = module.LoopFollower(self._attempt)
            for optimizer in self._optimizers:
                self._loop.applied(optimizer, eager=False)
        return self._loop

    def _begin(self) -> None:
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
            else:
                self._pace.pause()

    def _counters(self) -> list[Any]:
        """The optimizers themselves are let go of at once: a model that the script drops
        while its counter is read, which may take a moment, must be gone."""
        return [getattr(one, "iterations", None) for one in list(self._optimizers)]

    def _publish(self) -> None:
        followed = self._attempt.training.loop  # it shows where it is
        done = 1 if followed else max(map(counted, self._counters()), default=0)
        if done and self._attempt.phase is Phase.STARTING:
            self._attempt.enter(Phase.BETWEEN)
        if followed:
            self._pace.pause()
        elif done:
            self._attempt.set(step=done)
            self._pace.looked(done)

    # --- calls -----------------------------------------------------------------------

    def listen(self, hooks: Any) -> None:
        """TensorFlow is there: be asked for each call of a compiled function."""
        self._hooks = hooks
        hooks.install()
        hooks.follow(self)

    def call(
        self, function: Any, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What ``run(function, *args, **kwargs)`` would return."""
        if self._attempt.training.running is not None:
            with self._hooks.quiet():
                return run(function, *args, **kwargs)
        number, self._calls = self._calls, self._calls + 1
        if number == 0 and self._attempt.files.has_snapshot():
            self._followed()
        self._in_call = True
        try:
            if self._loop is not None:
                result = self._loop.call(number, function, run, args, kwargs)
            else:
                with self._hooks.quiet():
                    result = run(function, *args, **kwargs)
        finally:
            self._in_call = False
        if self._optimizers and (self._loop is None or self._loop.is_waiting):
            self._followed().begins(number, function, args, kwargs, result)
        return result

    def elsewhere(self, function: Any) -> None:
        """Another thread calls ``function``."""
        if self._loop is not None:
            self._loop.elsewhere(function)

    # --- what else the script does with models ---------------------------------------

    def fit(self) -> AbstractContextManager[None]:
        """A call of ``fit``: what is done within is followed by it."""
        self._pace.pause()
        if self._loop is not None:
            self._loop.fit_begins()
        return contextlib.nullcontext() if self._hooks is None else self._hooks.quiet()

    def evaluation(
        self, model: Any, name: str, run: Callable[[], Any], arguments: dict[str, Any]
    ) -> Any:
        """What ``evaluate`` or ``predict`` returns."""
        try:
            if self._loop is None or self._hooks.is_quiet():
                return run()
            return self._loop.evaluation(model, name, run, arguments)
        except Exception as error:
            crash_report.mark_no_step(error)
            raise

    def writes(self, path: Any, nbytes: int, run: Callable[[], Any]) -> Any:
        """What writing so many bytes of state to ``path`` returns."""
        if self._loop is None or self._hooks.is_quiet():
            return run()
        return self._loop.writes(os.fspath(path), nbytes, run)

    def reads(self, path: Any) -> None:
        """A state is about to be read from there."""
        if self._loop is not None and not self._hooks.is_quiet():
            self._loop.reads(os.fspath(path))

    def writes_checkpoint(self, prefix: str, run: Callable[[], Any]) -> Any:
        """What writing a checkpoint returns, most often of all that is trained."""
        if self._loop is None or self._hooks.is_quiet():
            return run()
        return self._loop.writes(prefix, None, lambda: self._hooks.path_of(run()))

    def script_ends(self) -> None:
        """The script is over."""
        if self._loop is not None:
            self._loop.script_ends()
        if self._optimizers:
            self._publish()


def counted(counter: Any) -> int:
    """Steps by an optimizer's ``counter``; 0 where it cannot be read (now)."""
    try:
        return int(counter.numpy())
    except Exception:  # noqa: BLE001  # a counter of somebody's own, or one in the making
        return 0
