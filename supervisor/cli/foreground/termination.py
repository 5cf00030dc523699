"""SIGTERM to ``run`` outside of the part that is supervised: before it, and after it.

A scheduler sends SIGTERM when it likes, and several times (Slurm two or three times at a
requeue). One that finds no training yet ends the command as a drain does; one that comes
after the run has ended must not turn its exit code into a signal's: 0 would be trained
again, and 75 not requeued.
"""

import os
import signal
from dataclasses import dataclass
from typing import Protocol

from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED

NOT_BEGUN = b"trainwarden: SIGTERM: ended before anything had begun\n"


class Ending(Protocol):
    """What may have ended."""

    @property
    def done(self) -> bool:
        """Whether it has."""
        ...


@dataclass(slots=True)
class Termination:
    """What SIGTERM does while nothing else takes it."""

    of: Ending | None = None
    """The run, once there is one."""

    def listen(self) -> None:
        """From now on; the supervised part takes it for itself meanwhile."""
        signal.signal(signal.SIGTERM, self._received)

    def over(self) -> None:
        """The exit code is known. While the interpreter shuts down it gives handlers up,
        so that there must be none."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _received(self, _number: int, _frame: object) -> None:
        if self.of is not None and self.of.done:
            return
        os.write(
            2, NOT_BEGUN
        )  # a signal may come while standard error is being written
        raise SystemExit(EXIT_DRAINED)
