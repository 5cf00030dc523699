"""The summary of a run, as accounting has it (``sacct``): when, how long, what it took."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from supervisor.core.jobs.job_status import JobState
from supervisor.core.text.units import counted, format_duration

EXIT_CODES: Mapping[JobState, int] = {
    JobState.FINISHED: 0,
    JobState.GAVE_UP: 1,
    JobState.DRAINED: 75,
}
"""What ``run`` ended with, or would have; a run that goes on has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of a job, in the shape that ``history --json`` prints. None: not known."""

    job: str
    run: int
    """Counts the runs of that job, from 1."""
    user: str | None
    state: JobState
    began_at: str
    """UTC, ISO 8601."""
    ended_at: str | None
    elapsed_seconds: float | None
    """From its beginning to its end, or to now, without ``paused_seconds``: what its
    commands took together."""
    attempts: int
    attempt_seconds: float | None
    """How long there was a training process."""
    exit_code: int | None
    cause: str | None
    """Of the newest attempt that ended badly."""
    incidents: int
    steps: int | None
    device_peak_bytes: int | None
    """The most that the framework's allocator held, of all attempts."""
    host_peak_bytes: int | None
    """The most main memory of the training process alone, of all attempts."""
    gpus: int | None
    gpu_seconds: float | None
    """GPUs by the time that attempts had them."""
    lost_steps: int
    """Done again: after failures, and after a person ended it at once."""
    downtime_seconds: float
    """From the last step of an attempt that failed (its start, if it made none) to the first
    step of the next, or to its end where it made none."""
    device_limit_bytes: int | None = None
    """What the allocator had to keep to in the attempt of that peak."""
    paused_seconds: float = 0.0
    """How long it had ended before somebody let it go on, all times together."""


WHAT_IS_LOST = (
    "lost: steps that were done again, after crashes and after commands that were ended at"
    " once, and the time without a step after crashes: from the last step before each crash"
    " to the first one after it, be that done again or new, or to the end of its command"
)
"""How the figures are to be read, wherever there is one word for both."""


WHAT_IS_ELAPSED = (
    "elapsed: what the commands of a run took together; between them, when it had ended and"
    " nobody had let it go on yet, nothing ran"
)
"""Told where a run had ended, and was let go on."""


def elapsed_text(seconds: float, paused: float) -> str:
    """How long a run took, in words; ``paused``: how long it had ended in between."""
    took = format_duration(seconds)
    return (
        f"{took} and {format_duration(paused)} between its commands" if paused else took
    )


def lost_text(steps: int, seconds: float) -> str:
    """What crashes cost, in words."""
    return f"{counted(steps, 'step')} done again, {format_duration(seconds)} without a step"


def gpu_count(spec: Mapping[str, Any]) -> int | None:
    """How many GPUs a run had, by what its spec says; None: all that were to be seen."""
    named: list[str] | None = spec.get("gpus")
    memory: dict[str, Any] = spec.get("memory") or {}
    if named is not None:
        return len(named)
    return 0 if memory.get("cpu") is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs somebody asks for; what is None does not matter."""

    user: str | None = None
    states: frozenset[JobState] = frozenset()
    """Empty: any."""
    name: str | None = None
    """A pattern, as a shell has them."""
    since: datetime | None = None
    """It had not ended then."""
    until: datetime | None = None
    """It had begun then."""

    def admits(self, run: RunSummary) -> bool:
        """Whether ``run`` is asked for."""
        return (
            self.user in {None, run.user}
            and (not self.states or run.state in self.states)
            and (self.name is None or fnmatchcase(run.job, self.name))
            and self._within(run)
        )

    def _within(self, run: RunSummary) -> bool:
        ended, since = run.ended_at, self.since
        over = ended is not None and since is not None and _moment(ended) < since
        late = self.until is not None and _moment(run.began_at) > self.until
        return not over and not late


def _moment(utc: str) -> datetime:
    return datetime.fromisoformat(utc)
