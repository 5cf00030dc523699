"""The end of an attempt that was planned before it began: what ``certify`` asks for."""

import math
import os
import signal
import threading
import time

from supervisor.wire.messages.directive import Directive


class PlannedEnd:
    """Where this attempt is to be killed, or to stop."""

    def __init__(self, directive: Directive) -> None:
        self._die_at, self._stop_at = directive.die_at_step, directive.stop_at_step
        self._lose_at = list(directive.lose_at_steps)
        self._delay_seconds = directive.die_after_seconds
        planned = [at for at in (self._die_at, self._stop_at) if at is not None]
        self.at_step = min(planned, default=math.inf)
        """The step from which on it is to be asked whether its end is ``reached``."""

    def reached(self, step: int) -> bool:
        """``step`` steps are done; whether the attempt is to save its state and end."""
        if self._die_at is not None and step >= self._die_at:
            self._die_at = None
            threading.Thread(
                target=self._die, name="trainwarden-planned-end", daemon=True
            ).start()
        return self._stop_at is not None and step >= self._stop_at

    @property
    def loses_some(self) -> bool:
        """Whether ``loses`` will be true at some step."""
        return bool(self._lose_at)

    def loses(self, step: int) -> bool:
        """Whether the loss is to be taken for lost now that ``step`` steps are done."""
        due = bool(self._lose_at) and step >= self._lose_at[0]
        if due:
            del self._lose_at[0]
        return due

    def _die(self) -> None:
        time.sleep(self._delay_seconds)
        os.kill(os.getpid(), signal.SIGKILL)
