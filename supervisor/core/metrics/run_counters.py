"""The time between attempts, which an exporter has to count: nobody else does."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.jobs.job_status import JobState, JobStatus

BETWEEN = {JobState.WAITING: "waiting", JobState.LAUNCHING: "down"}
"""States in which no training process is there, by the name of their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounters:
    """One run, seen again and again."""

    seen: float | None = None
    """When it was seen last (monotonic seconds)."""
    state: JobState | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Between attempts, by the names of ``BETWEEN``."""


def metered(
    counters: RunCounters, status: JobStatus, *, now: float
) -> tuple[RunCounters, JobStatus]:
    """The meter after seeing ``status``, and the status with the totals of the run."""
    passed = 0.0 if counters.seen is None else max(now - counters.seen, 0.0)
    seconds = dict(counters.seconds)
    name = None if counters.state is None else BETWEEN.get(counters.state)
    if name is not None:
        seconds[name] = seconds.get(name, 0.0) + passed
    after = RunCounters(seen=now, state=status.state, seconds=seconds)
    phases = {**status.phase_seconds, **seconds}
    return after, replace(status, phase_seconds=phases)
