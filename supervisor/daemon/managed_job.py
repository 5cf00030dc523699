"""One job as the daemon has it in mind."""

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.core.gpu.assignment import GpuReading, named
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.scheduling import WaitingJob
from supervisor.core.jobs.spec import Problem, Spec, SpecError
from supervisor.host.ledger.job_book import JobRow, WantedState
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.service.lock import Lock
from supervisor.runtime.status_builder import never_begun
from supervisor.runtime.supervisor import Supervisor


class SchedulerError(Exception):
    """What was asked cannot be done; the message is for who asked."""


class ForbiddenError(SchedulerError):
    """They may not."""


class UnknownJobError(SchedulerError):
    """There is no such thing."""


@dataclass(slots=True, kw_only=True)
class ManagedJob:
    """A job, and its run if it runs."""

    row: JobRow
    spec: Spec
    supervisor: Supervisor | None = None
    lock: Lock | None = None
    left: RunRow | None = None
    """A run of an earlier daemon that could not be taken up yet: it may still train."""
    retry_at: float = 0.0
    """What could not be done is tried again then, in monotonic seconds."""
    tries: int = 0
    """How often in a row it could not be done."""
    gpus: tuple[str, ...] = ()
    """What it holds."""
    over: bool = False
    """Its run has ended; it starts again only when somebody says so."""
    again: bool = False
    """It should start again as soon as its run has ended."""
    ended: JobStatus | None = None
    """How its last run ended."""
    because: str = "waiting for its turn"

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.name

    @property
    def active(self) -> bool:
        """Whether it runs, or may."""
        return self.supervisor is not None or self.left is not None

    @property
    def finished(self) -> bool:
        """Whether its last run came to its end: there is nothing to go on with."""
        ended = None if self.active or self.waits else self.ended
        return ended is not None and ended.state is JobState.FINISHED

    @property
    def waits(self) -> bool:
        """Whether it should run and does not."""
        idle = not self.active and not self.over
        return idle and self.row.wanted is WantedState.RUN

    def wish(self, readings: Sequence[GpuReading]) -> WaitingJob:
        """What it asks for. Who asks for no GPU gets none: those of the box are not all
        its own, as they are in the foreground."""
        spec = self.spec
        chosen = None
        if spec.gpus is not None:
            chosen = tuple(dict.fromkeys(named(spec.gpus, readings)))
        return WaitingJob(
            job=self.name,
            owner=self.row.owner,
            wants=spec.gpu_count or 0 if chosen is None else chosen,
            priority=spec.priority,
            turn=self.row.turn,
        )

    def unlock(self) -> None:
        """Let others look after it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def status(self) -> JobStatus:
        """What to show of it."""
        if self.supervisor is not None:
            return self.supervisor.status()
        if self.left is not None:
            state = JobState.INTERRUPTED
            return JobStatus(
                job=self.name, state=state, attempt=0, message=self.because
            )
        if self.waits:
            return JobStatus(
                job=self.name, state=JobState.QUEUED, attempt=0, message=self.because
            )
        if self.ended is not None:
            return self.ended
        message = never_begun(self.name)
        return JobStatus(
            job=self.name, state=JobState.DRAINED, attempt=0, message=message
        )


def job_name(spec: Spec) -> str:
    """The name of a job. Raises SpecError: it has none, and none is made up here: its
    files are called so."""
    if spec.name is None:
        raise SpecError((Problem("name", "is required"),))
    return spec.name
