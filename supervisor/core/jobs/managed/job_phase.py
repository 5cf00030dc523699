"""The phases of a managed job, and what is known of it in each."""

import enum
from dataclasses import dataclass, replace

from supervisor.core.jobs.job_status import JobState, JobStatus


class JobPhase(enum.Enum):
    """Where a managed job is."""

    QUEUED = "queued"
    """It should run, and waits for its turn."""
    RUNNING = "running"
    """Its run is supervised, between two attempts too."""
    STOPPING = "stopping"
    """... and was asked to end."""
    RESTARTING = "restarting"
    """... and was asked to end, to be queued again."""
    ORPHANED = "orphaned"
    """Its run was left by an earlier daemon, and is not supervised yet."""
    ORPHANED_STOPPING = "orphaned_stopping"
    """... and is to end once it is."""
    ORPHANED_RESTARTING = "orphaned_restarting"
    """... and is to end once it is, to be queued again."""
    STOPPED = "stopped"
    """At rest: it starts again only when somebody says so."""
    FINISHED = "finished"
    """At rest, and there is nothing to go on with: only a fresh start is one."""
    FORGOTTEN = "forgotten"
    """A job no longer."""


SUPERVISED = (JobPhase.RUNNING, JobPhase.STOPPING, JobPhase.RESTARTING)
ORPHANS = (JobPhase.ORPHANED, JobPhase.ORPHANED_STOPPING, JobPhase.ORPHANED_RESTARTING)
IDLE = (JobPhase.QUEUED, JobPhase.STOPPED, JobPhase.FINISHED)
WAITS = "waiting for its turn"
"""Why a job does not run that nobody has looked at yet."""
SERIES_SECONDS = 24 * 3600.0
"""How long the series of a run outlive it: an alert that looks at the end of a run has a
day to fire, and no more, however often the daemon starts anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLifecycle:
    """The whole state of a managed job."""

    job: str
    phase: JobPhase = JobPhase.QUEUED
    gpus: tuple[str, ...] = ()
    """What it holds."""
    because: str = WAITS
    """Why it does not run, or what went wrong last."""
    retry_at: float = 0.0
    """What could not be done is tried again then, in monotonic seconds."""
    tries: int = 0
    """How often in a row it could not be done."""
    ended: JobStatus | None = None
    """How its last run ended."""
    ended_at: float = 0.0
    """... and when, in monotonic seconds, which are below 0 before this machine began."""

    def has_series(self, now: float) -> bool:
        """Whether the exporter tells of it while nobody looks after a run of it."""
        if self.ended is None:
            return False
        return self.phase is JobPhase.QUEUED or now - self.ended_at <= SERIES_SECONDS

    @property
    def supervised(self) -> bool:
        """Whether its run is looked after."""
        return self.phase in SUPERVISED

    @property
    def active(self) -> bool:
        """Whether its run goes on, or may."""
        return self.supervised or self.phase in ORPHANS

    def idle_status(self) -> JobStatus:
        """What to show of it while nobody looks after a run of it.

        What was counted of its last run stays: figures that go to 0 and come back would
        be counted once more.
        """
        if self.phase is JobPhase.QUEUED:
            return self._with_what_was(queued(self.job, self.because))
        if self.active:
            return self._with_what_was(
                _without_attempt(self.job, JobState.INTERRUPTED, self.because)
            )
        return self.ended or never_begun(self.job)

    def _with_what_was(self, now: JobStatus) -> JobStatus:
        ended = self.ended
        if ended is None:
            return now
        return replace(ended, state=now.state, message=now.message)


def queued(job: str, because: str) -> JobStatus:
    """What to show of a job that waits for its turn."""
    return _without_attempt(job, JobState.QUEUED, because)


def never_begun(job: str) -> JobStatus:
    """What to show of a job that was stopped before it ran."""
    message = f"stopped; `trainwarden start {job}` begins or resumes it"
    return _without_attempt(job, JobState.DRAINED, message)


def _without_attempt(job: str, state: JobState, message: str) -> JobStatus:
    return JobStatus(job=job, state=state, attempt=0, message=message)


def recalled(
    job: str,
    *,
    wanted: bool,
    again: bool = False,
    ended: JobStatus | None = None,
    ended_at: float = 0.0,
) -> JobLifecycle:
    """A job of an earlier daemon whose last run, if there was one, has ``ended``.

    ``wanted``: nobody said stop. ``again``: it should run although it did. ``ended_at``:
    in monotonic seconds.
    """
    found = JobLifecycle(job=job, ended=ended, ended_at=ended_at)
    return found if wanted and (again or ended is None) else at_rest(found)


def orphaned(
    job: str, *, wanted: bool, again: bool, gpus: tuple[str, ...]
) -> JobLifecycle:
    """A job whose run an earlier daemon left; ``again``: it was to be restarted."""
    phase = JobPhase.ORPHANED if wanted else JobPhase.ORPHANED_STOPPING
    if again:
        phase = JobPhase.ORPHANED_RESTARTING
    return JobLifecycle(job=job, phase=phase, gpus=gpus)


def at_rest(job: JobLifecycle) -> JobLifecycle:
    """The same, with nothing to do before somebody says so."""
    finished = job.ended is not None and job.ended.state is JobState.FINISHED
    return replace(job, phase=JobPhase.FINISHED if finished else JobPhase.STOPPED)
