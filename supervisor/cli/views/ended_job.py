"""The end of a job, as ``status JOB`` tells it later: what ``run`` said at its end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.cli.command_hint import command_hint
from supervisor.cli.views.progress import reached_line
from supervisor.cli.views.summary import (
    FROM_THE_TOP,
    TO_RESUME,
    RunFigures,
    came_to,
    incident_lines,
)
from supervisor.core.jobs.accounting.run_summary import elapsed_text
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.text.units import counted

REPAIRED = (
    "once what ended it is mended, the same command resumes: with --accept-changes if the"
    " script was changed for it, with --fresh from the top"
)
OVER = frozenset({JobState.FINISHED, JobState.DRAINED, JobState.GAVE_UP})
"""... and nothing is under way of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """What is known of a run that is over."""

    figures: RunFigures
    incidents: Sequence[Mapping[str, Any]] = field(
        default_factory=tuple[Mapping[str, Any], ...]
    )
    """Of this run, as ``incidents --json`` has them."""
    log: Path | None = None
    """Of its newest attempt; None: it may not be read."""
    by_daemon: bool = False
    """Whether a daemon has the job: it is begun again by a command of its own."""


def has_ended(status: JobStatus) -> bool:
    """Whether the run is over, and nobody goes on with it by himself."""
    return status.state in OVER and status.pid is None and status.attempt > 0


def ended_json(status: JobStatus, end: EndedRun) -> dict[str, Any]:
    """The documented shape of ``ended`` in ``status --json JOB``."""
    whole = end.figures.whole
    names = (
        "elapsed_seconds", "attempts", "exit_code", "cause", "lost_steps",
        "paused_seconds", "downtime_seconds", "device_peak_bytes", "device_limit_bytes", "host_peak_bytes",
    )  # fmt: skip
    return {
        **{name: None if whole is None else getattr(whole, name) for name in names},
        "metrics": dict(end.figures.metrics),
        "metrics_epoch": end.figures.epoch,
        "incidents": [one["id"] for one in end.incidents],
        "log": None if end.log is None else str(end.log),
        "next": what_next(status, by_daemon=end.by_daemon),
    }


def ended_lines(status: JobStatus, end: EndedRun) -> Iterator[str]:
    """The same for a person."""
    whole = end.figures.whole
    if whole is not None:
        lasted = whole.elapsed_seconds
        took = ""
        if lasted is not None:
            took = f" in {elapsed_text(lasted, whole.paused_seconds)}"
        yield f"  {counted(whole.attempts, 'attempt')}{took}"
    reached = reached_line(status)
    yield f"  reached: {reached or 'no step was done'}"
    yield from came_to(end.figures, end.incidents)
    if end.log is not None:
        yield f"  log: {end.log}"
    yield from incident_lines(end.incidents)
    advice = end.incidents[-1].get("advice") if end.incidents else ""
    if advice and status.state is JobState.GAVE_UP:
        yield f"  what to do: {advice}"
    yield f"  next: {what_next(status, by_daemon=end.by_daemon)}"


def what_next(status: JobStatus, *, by_daemon: bool) -> str:
    """How to go on with it, or to look further."""
    look = f"`{command_hint('report', status.job)}` writes all of it into one page"
    if status.state is JobState.FINISHED:
        return look
    if by_daemon:
        again = f"`{command_hint('start', status.job)}` begins it again"
        return f"{again}, from its newest snapshot if there is one; {look}"
    if status.snapshot is None:
        return f"{FROM_THE_TOP}; {look}"
    return f"{REPAIRED if status.state is JobState.GAVE_UP else TO_RESUME}; {look}"
