"""The time between attempts."""

from dataclasses import replace

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.metrics.run_counters import RunCounters, metered

RUNNING = JobStatus(job="a", state=JobState.RUNNING, attempt=1)


def seen(*moments: tuple[float, JobStatus]) -> list[JobStatus]:
    """What is shown of a run that is seen at these moments."""
    counters, shown = RunCounters(), list[JobStatus]()
    for now, status in moments:
        counters, told = metered(counters, status, now=now)
        shown.append(told)
    return shown


def test_time_between_attempts() -> None:
    """Back-off is waiting, starting a process is down; training is neither."""
    waiting = replace(RUNNING, state=JobState.WAITING)
    launching = replace(RUNNING, state=JobState.LAUNCHING, attempt=2)
    again = replace(RUNNING, attempt=2, phase_seconds={"training": 5.0})
    *_, last = seen(
        (0.0, RUNNING), (10.0, waiting), (14.0, launching), (15.0, again), (99.0, again)
    )
    assert last.phase_seconds == {"training": 5.0, "waiting": 4.0, "down": 1.0}
