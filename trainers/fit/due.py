"""The snapshot that is due at a step boundary of a ``fit``."""

import time
from dataclasses import dataclass

from trainers.snapshots.run_progress import RunProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSnapshot:
    """The snapshot to take now."""

    durable: bool
    """On disk too, not in memory alone."""
    patient: bool
    """Wait for room for it, rather than take it at a later boundary."""


class SinceSaved:
    """Step and time of the last snapshots of one ``fit``: in any tier, and on disk."""

    def __init__(self, session: RunProgress) -> None:
        self._session = session
        self._any = self._durable = session.step, time.monotonic()

    def restored(self) -> None:
        """The state is that of a snapshot: one in memory may be newer than the disk's."""
        now = time.monotonic()
        self._any = self._session.step, now
        self._durable = self._session.durable_step(), now

    def saved(self, *, durable: bool) -> None:
        """A snapshot was taken."""
        self._any = self._session.step, time.monotonic()
        if durable:
            self._durable = self._any

    @property
    def on_disk(self) -> bool:
        """Whether no step was made since the last snapshot for the disk."""
        return self._durable[0] == self._session.step

    def wanted(self) -> DueSnapshot | None:
        """By the schedule, and by what the saver is busy with; None: nothing is due."""
        session, saver = self._session, self._session.saver
        step, now = session.step, time.monotonic()
        memory, durable = self._any, self._durable
        due = session.due(
            memory=(step - memory[0], now - memory[1]),
            durable=(step - durable[0], now - durable[1]),
        )
        # An interval in steps is kept to the step; others never wait for one in flight.
        exact = due.durable and session.schedule.durable.steps is not None
        if exact or (due.durable and not saver.busy and not saver.writing):
            return DueSnapshot(durable=True, patient=exact)
        inside = session.schedule.memory
        exact = due.memory and inside is not None and inside.steps is not None
        if exact or (due.memory and not saver.busy):
            return DueSnapshot(durable=False, patient=exact)
        return None
