"""A managed job: its row in the ledger, where its life stands, and its run if it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.gpu.assignment import named
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.managed.job_phase import JobLifecycle, JobPhase
from supervisor.core.jobs.managed.scheduling import WaitingJob
from supervisor.core.jobs.spec import Problem, Spec, SpecError
from supervisor.host.ledger.job_book import JobRow
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.service.lock import Lock, acquire
from supervisor.runtime.supervisor import Supervisor


class SchedulerError(Exception):
    """What was asked cannot be done; the message is for who asked."""


class ForbiddenError(SchedulerError):
    """They may not."""


class UnknownJobError(SchedulerError):
    """There is no such thing."""


@dataclass(slots=True, kw_only=True)
class ManagedJob:
    """One job of the daemon. Nobody else writes to its fields."""

    row: JobRow
    spec: Spec
    life: JobLifecycle
    """Only the scheduler moves it on."""
    supervisor: Supervisor | None = None
    lock: Lock | None = None
    orphan: RunRow | None = None
    """The run that an earlier daemon left, as long as it was not adopted."""
    shown: tuple[JobLifecycle, JobRow, bytes] | None = None
    """It at rest, as it was shown last, in JSON."""
    wished: tuple[JobRow, WaitingJob] | None = None
    """What it asks for, where no reading of the driver is needed for that."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.name

    def wish(self, readings: Sequence[Gpu]) -> WaitingJob:
        """What it asks for. Who asks for no GPU gets none: those of the box are not all
        its own, as they are in the foreground."""
        spec = self.spec
        if self.wished is not None and self.wished[0] is self.row:
            return self.wished[1]
        chosen = None
        if spec.gpus is not None:
            chosen = tuple(dict.fromkeys(named(spec.gpus, readings)))
        wish = WaitingJob(
            job=self.name,
            owner=self.row.owner,
            wants=spec.gpu_count or 0 if chosen is None else chosen,
            priority=spec.priority,
            turn=self.row.turn,
        )
        self.wished = None if spec.gpus else (self.row, wish)
        return wish

    def recall(self, life: JobLifecycle, *, orphan: RunRow | None = None) -> None:
        """Where its life stood before this daemon began. ``orphan``: the run that goes on,
        or may, and that nobody looks after yet."""
        self.life, self.orphan = life, orphan

    def move_on(self, life: JobLifecycle) -> None:
        """Its life stands there now; a run that is not supervised in it is let go."""
        self.life = life
        if not life.supervised:
            self.let_go()

    def reread(self, row: JobRow, *, spec: Spec | None = None) -> None:
        """The ledger tells this of it now. ``spec``: None: as it was."""
        self.row = row
        self.spec = self.spec if spec is None else spec

    def has_begun(self) -> None:
        """What was asked for its next start is done."""
        self.row = replace(self.row, fresh=False, accept_changes=False, again=False)

    def claim(self, path: Path) -> bool:
        """Be the only process that supervises it, by the lock at ``path``; False: another
        does. Raises OSError."""
        self.lock = acquire(path)
        return self.lock is not None

    def attend(self, supervisor: Supervisor) -> None:
        """Look after its run, by ``supervisor``."""
        self.supervisor = supervisor

    def adopted(self) -> None:
        """The run that an earlier daemon left is looked after."""
        self.orphan = None

    def shown_at_rest(self, make: Callable[["ManagedJob"], bytes]) -> bytes:
        """What ``make`` makes of it while no run of it is supervised: made once, until it
        changes."""
        if self.shown is None or self.shown[:2] != (self.life, self.row):
            self.shown = self.life, self.row, make(self)
        return self.shown[2]

    def let_go(self) -> None:
        """Look after its run no more, and let others do so."""
        self.supervisor = None
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    @property
    def state(self) -> JobState:
        """That of ``status``, for less."""
        if self.supervisor is not None:
            return self.supervisor.run.state
        if self.life.phase is JobPhase.QUEUED:
            return JobState.QUEUED
        return self.life.idle_status().state

    def status(self) -> JobStatus:
        """What to show of it."""
        if self.supervisor is None:
            return self.life.idle_status()
        return self.supervisor.status()


def job_name(spec: Spec) -> str:
    """The name of a job. Raises SpecError: it has none, and none is made up here: its
    files are called so."""
    if spec.name is None:
        raise SpecError((Problem("name", "is required"),))
    return spec.name
