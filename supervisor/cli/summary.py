"""What is printed when a run is over."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from supervisor.core.diagnosis.explain import summarise_incident
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.lifecycle.exit_handling import (
    EXIT_DRAINED,
    EXIT_FINISHED,
    EXIT_GAVE_UP,
)
from supervisor.host.ledger.ledger import IncidentRow
from supervisor.host.snapshots.snapshot_catalog import newest_step
from supervisor.wire.files import read_json
from supervisor.wire.paths import RunPaths
from supervisor.wire.records import CrashReport

TO_RESUME = "run the same command again to resume"
FROM_THE_TOP = (
    "nothing was saved: the same command runs the script from its top, which goes on only"
    " if the script keeps checkpoints of its own"
)
LOG_LINES = 20
LOG_BYTES = 64 * 1024


def summary(
    status: JobStatus, incidents: Sequence[IncidentRow], paths: RunPaths, *, code: int
) -> str:
    """A few lines: how it ended, what went wrong on the way, where to look."""
    attempt = paths.attempt(max(status.attempt, 1))
    lines = [f"{status.job}: {status.state}", f"  log: {attempt.output}"]
    if code == EXIT_FINISHED:
        many = f"{status.attempt} attempts" if status.attempt > 1 else "one attempt"
        lines[0] = f"{status.job}: finished in {many}"
    if code == EXIT_DRAINED:
        saved = newest_step(paths.snapshots) != 0
        lines[0] += f"; {TO_RESUME if saved else FROM_THE_TOP}"
    if incidents:
        lines += ["  incidents (trainwarden explain ID tells more):"]
        lines += [f"    {summarise_incident(asdict(item))}" for item in incidents]
    if code == EXIT_GAVE_UP:
        lines[0] = f"{status.job}: gave up: {status.message}"
        lines += ["", last_words(attempt.crash, attempt.output)]
    return "\n".join(lines)


def last_words(crash: Path, output: Path) -> str:
    """The traceback of the last attempt, or else the end of its log."""
    value = read_json(crash)
    report = None if value is None else CrashReport.from_json(value)
    if report is not None:
        return report.traceback.rstrip()
    try:
        with output.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - LOG_BYTES, 0))
            tail = file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        return "(the attempt left no log)"
    return "\n".join(tail)
