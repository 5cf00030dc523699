"""A watch over the loss: what is trained after it became NaN or infinite is no use.

Keras logs the mean of an epoch, in which one bad batch shows to its end although
training may have survived it (loss scaling leaves such an update out). So the weights
decide: where they are no numbers either, nothing can come of it any more. If they are
well, the run goes on, unless three epochs in a row end so.
"""

import math
import os
import sys
import time
from typing import Any, NoReturn

import numpy as np

from supervisor.wire.events import Kind
from supervisor.wire.records import CrashReport
from trainers import crash_report
from trainers.attempt import Attempt
from trainers.fit_report import SELDOM_SECONDS, loss_of

EPOCHS = 3
EXCEPTION = "trainwarden.NonFiniteLoss"


class LossWatch:
    """The loss of one ``fit``."""

    def __init__(self, attempt: Attempt, model: Any) -> None:
        self._attempt, self._model = attempt, model
        self._looked_at = 0.0
        self._last_finite: int | None = None
        self._bad_epochs: list[int] = []

    def look(self, logs: Any, *, step: int, epoch: int, due: bool = False) -> None:
        """Look at the loss, now and then or if it is ``due``. It may end the process."""
        now = time.monotonic()
        wanted = self._attempt.directive.watch_loss and not self._model.stop_training
        if not wanted or not (due or now - self._looked_at >= SELDOM_SECONDS):
            return
        self._looked_at = now
        loss = loss_of(logs)
        if loss is None:
            return
        if math.isfinite(loss):
            self._last_finite, self._bad_epochs = step, []
            return
        spoilt = not_finite(self._model)
        if spoilt is not None:
            self._leave(step, loss, f"{spoilt} is not finite either")
        if epoch not in self._bad_epochs:
            self._bad_epochs.append(epoch)
            self._attempt.notice(
                f"the loss is {loss} at step {step}, the weights are well: going on"
            )
        if len(self._bad_epochs) >= EPOCHS:
            self._leave(step, loss, f"so it was in {EPOCHS} epochs in a row")

    def _leave(self, step: int, loss: float, because: str) -> NoReturn:
        """End the process, at once: a script's ``except:`` must not call it finished."""
        attempt = self._attempt
        seen = "never" if self._last_finite is None else f"at step {self._last_finite}"
        sentence = f"the loss is {loss} at step {step} (last finite: {seen}); {because}"
        attempt.say(
            Kind.NON_FINITE,
            step=step,
            last_finite_step=self._last_finite,
            loss=str(loss),
            because=sentence,
        )
        crash = CrashReport(
            exception=EXCEPTION,
            message=sentence,
            traceback="",
            steps_done=attempt.steps_here,
            in_fit=True,
        )
        crash_report.write(attempt.paths.crash, crash)
        attempt.wait_for_saver()
        sys.stderr.write(f"trainwarden: {sentence}\n")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os._exit(1)


def not_finite(model: Any) -> str | None:
    """A variable of ``model`` that holds NaN or infinity; None: there is none."""
    for variable in model.weights:
        value = np.asarray(variable)
        # bfloat16 is no kind that NumPy knows ("V"): looked at as float32.
        if value.dtype.kind == "V":
            value = value.astype(np.float32)
        if value.dtype.kind in "fc" and not np.isfinite(value).all():
            return str(variable.path)
    return None
