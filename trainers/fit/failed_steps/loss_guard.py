"""A watch over the loss: what is trained after it became NaN or infinite is no use.

Keras logs the mean of an epoch, in which one bad batch shows to its end although
training may have survived it (loss scaling leaves such an update out). So the weights
decide: where they are no numbers either, nothing can come of it any more. If they are
well, the run goes on, unless three epochs in a row end so.

A fit that ``TerminateOnNaN`` ended is left to the script: it may load better weights,
or train again at a lower rate. Only if it comes to its end with such a model, and has
trained nothing since, the loss is lost (``_lost``).

The attempt after a lost loss passes steps over, or lowers the learning rate, as allowed.
"""

import contextlib
import functools
import math
import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import keras
import numpy as np

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.end_records import CrashReport
from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.fit.telemetry.fit_report import SELDOM_SECONDS, loss_of, publish_loss
from trainers.process import applied_directive, crash_report, signals
from trainers.process.attempt_reporting import Attempt

EPOCHS = 3
EXCEPTION = "trainwarden.NonFiniteLoss"


class LossLostError(BaseException):
    """Loss and weights are no numbers any more: past what a script catches."""

    def __init__(self, crash: CrashReport) -> None:
        super().__init__(crash.message)
        self.crash = crash


def leave(attempt: Attempt, crash: CrashReport) -> NoReturn:
    """End the process, at once: a script's ``except:`` must not call it finished."""
    crash_report.write(attempt.paths.crash, crash)
    attempt.wait_for_saver()
    signals.end_at_once(1)


class LossGuard:
    """The loss of one ``fit``."""

    def __init__(self, attempt: Attempt, model: Any) -> None:
        self._attempt, self._model = attempt, model
        self._looked_at = 0.0
        self.last_finite: int | None = None
        """The newest step whose loss was seen to be finite, by any attempt."""
        self._bad_epochs: list[int] = []

    @property
    def planned(self) -> bool:
        """Whether it is planned at which step the loss is lost."""
        return self._attempt.planned_end.loses_some

    def look(self, logs: Any, *, step: int, epoch: int, due: bool) -> None:
        """Look at the loss, now and then or if it is ``due``. It may end the process."""
        if self._attempt.planned_end.loses(step):
            self._leave(step, math.nan, "a test of the recovery asked for it")
        now = time.monotonic()
        wanted = self._attempt.directive.watch_loss and not self._model.stop_training
        if not wanted or not (due or now - self._looked_at >= SELDOM_SECONDS):
            return
        self._looked_at = now
        loss = loss_of(logs)
        if loss is None:
            return
        if math.isfinite(loss):
            self.last_finite, self._bad_epochs = step, []
            return
        with backend.variables.in_place(self._model):
            bad = next(_not_finite(self._model.weights), None)
        if bad is not None:
            self._leave(step, loss, f"{_weights(bad)} are NaN or infinite as well")
        if epoch not in self._bad_epochs:
            self._bad_epochs.append(epoch)
            self._attempt.notice(
                f"the loss became {_named(loss)} at step {step}, but all weights are"
                " finite: training goes on"
            )
        if len(self._bad_epochs) >= EPOCHS:
            self._leave(step, loss, f"it was so in {EPOCHS} epochs in a row")

    def notice_stop(self, callbacks: Iterable[Any], logs: Any, *, step: int) -> None:
        """This ``fit`` is over, or was broken off: did ``TerminateOnNaN`` do that?"""
        loss = loss_of(logs)
        asked = any(
            isinstance(one, keras.callbacks.TerminateOnNaN) for one in callbacks
        )
        wanted = self._attempt.directive.watch_loss and asked
        if not wanted or loss is None or math.isfinite(loss):
            return
        lost = functools.partial(
            _lost,
            self._attempt,
            weakref.ref(self._model),
            variable=_smallest(_not_finite(self._model.weights)),
            loss=loss,
            step=step,
            last_finite=self.last_finite,
        )
        self._attempt.end.ask(lost)
        self._attempt.notice(
            f"the loss became {_named(loss)} at step {step}, and the callback"
            " TerminateOnNaN ended fit"
        )

    def passed_over(self, *, until: int) -> None:
        """Tell of steps that are left out, at the first."""
        if self._attempt.is_news("passed over"):
            self._attempt.notice(
                f"the batches of the steps up to {until} are skipped: the loss became NaN"
                " or infinite there"
            )

    def lower_rate(self) -> None:
        """Multiply the learning rate, once in an attempt; snapshots keep what it is then."""
        attempt = self._attempt
        factor = attempt.directive.rate_factor
        if factor == 1.0 or not attempt.is_news("rate lowered"):
            return
        rate = keras_compat.learning_rate(self._model.optimizer)
        if rate is None:
            applied_directive.tell(attempt, "rate_factor", asked=factor, found=1.0)
            attempt.notice("the learning rate follows a schedule: it was not lowered")
            return
        backend.variables.take_over(self._model)
        before = float(rate)
        rate.assign(before * factor)
        applied_directive.tell(attempt, "rate_factor", asked=factor, found=factor)
        attempt.notice(
            f"the learning rate was lowered from {before:g} to {float(rate):g}"
        )

    def _leave(self, step: int, loss: float, because: str) -> NoReturn:
        """End the ``fit``: whoever made it may go on without another process."""
        attempt = self._attempt
        crash = tell(attempt, loss, because, step=step, last_finite=self.last_finite)
        if attempt.directive.in_place:
            raise LossLostError(crash)
        leave(attempt, crash)


def _lost(
    attempt: Attempt,
    given: "weakref.ref[Any]",
    *,
    variable: Any,
    loss: float,
    step: int,
    last_finite: int | None,
) -> CrashReport | None:
    """The script is over: why nothing became of the model that it was ``given`` with a
    loss that is no number, to do with it what it likes; also to forget it.

    ``variable``: one of those that were not finite, to look at where the model is gone;
    or None.
    """
    model = given()
    left = [variable] if variable is not None else []
    bad = next(_not_finite(left if model is None else model.weights), None)
    if bad is None:
        return None
    because = (
        f"the callback TerminateOnNaN ended fit, and {_weights(bad)} are still NaN or"
        " infinite at the end of the script"
    )
    return tell(attempt, loss, because, step=step, last_finite=last_finite)


def became(loss: float, *, step: int, last_finite: int | None) -> str:
    """Where ``loss`` was lost, as far as that was looked at: not every step is."""
    if last_finite is None:
        return f"the loss is {_named(loss)} at step {step}, and was never seen finite"
    if last_finite + 1 >= step:
        return f"the loss became {_named(loss)} at step {step}"
    return (
        f"the loss became {_named(loss)} between step {last_finite}, where it was last seen"
        f" finite, and step {step}, where that was noticed"
    )


def tell(
    attempt: Attempt, loss: float, because: str, *, step: int, last_finite: int | None
) -> CrashReport:
    """Say that the loss is lost; the crash report of it."""
    sentence = f"{became(loss, step=step, last_finite=last_finite)}; {because}"
    publish_loss(attempt, loss, step=step)
    attempt.say(
        RecordKind.NON_FINITE,
        step=step,
        last_finite_step=last_finite,
        loss=str(loss),
        because=sentence,
    )
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"trainwarden: {sentence}\n")
    return CrashReport(
        exception=EXCEPTION,
        message=sentence,
        traceback="",
        steps_done=attempt.training.steps,
        in_fit=True,
    )


def _named(loss: float) -> str:
    """As Keras calls it."""
    return "NaN" if math.isnan(loss) else "infinite"


def _weights(variable: Any) -> str:
    return f"the weights {variable.path}"


def _not_finite(variables: Iterable[Any]) -> Iterator[Any]:
    """Those of ``variables`` that hold NaN or infinity."""
    for variable in variables:
        value = np.asarray(variable)
        # bfloat16 is no kind that NumPy knows ("V"): looked at as float32.
        if value.dtype.kind == "V":
            value = value.astype(np.float32)
        if value.dtype.kind in "fc" and not np.isfinite(value).all():
            yield variable


def _smallest(variables: Iterable[Any]) -> Any | None:
    """The one that keeps the least memory; None: there is none."""
    return min(variables, key=lambda one: math.prod(one.shape), default=None)
