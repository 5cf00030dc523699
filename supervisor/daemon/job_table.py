"""The jobs by name; what is asked of all of them at each turn is kept until one changes."""

from collections import Counter

from typing_extensions import override

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.managed.job_phase import JobPhase
from supervisor.daemon.managed_job import ManagedJob


class JobTable(dict[str, ManagedJob]):
    """All jobs of the box."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        """Counts them: of jobs, their specs, and where their lives stand."""
        self._kept: tuple[int, list[ManagedJob], list[ManagedJob]] = -1, [], []

    def changed(self) -> None:
        """One of them is not as it was."""
        self.changes += 1

    @override
    def __setitem__(self, name: str, entry: ManagedJob, /) -> None:
        super().__setitem__(name, entry)
        self.changed()

    @override
    def __delitem__(self, name: str, /) -> None:
        super().__delitem__(name)
        self.changed()

    @property
    def busy(self) -> list[ManagedJob]:
        """Those with a run that goes on, or that an earlier daemon left."""
        return self._lists()[0]

    @property
    def queued(self) -> list[ManagedJob]:
        """Those that wait for their turn."""
        return self._lists()[1]

    def _lists(self) -> tuple[list[ManagedJob], list[ManagedJob]]:
        if self._kept[0] != self.changes:
            found = list(self.values())
            busy = [
                e for e in found if e.supervisor is not None or e.orphan is not None
            ]
            queued = [e for e in found if e.life.phase is JobPhase.QUEUED]
            self._kept = self.changes, busy, queued
        return self._kept[1:]

    def begun(self, now: float) -> list[JobStatus]:
        """What the exporter tells of those that have a run, or had one lately."""
        return [
            entry.status()
            for entry in self.values()
            if entry.supervisor is not None
            or entry.orphan
            or entry.life.has_series(now)
        ]

    def counts(self) -> Counter[tuple[JobState, str]]:
        """How many are in each state, by owner."""
        return Counter((entry.state, entry.row.owner) for entry in self.values())
