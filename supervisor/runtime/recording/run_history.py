"""The history of runs, from the ledger: of each a summary, of one how its attempts went."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supervisor.core.jobs.accounting.run_summary import (
    EXIT_CODES,
    RunSummary,
    gpu_count,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.host.ledger.ledger import Ledger, utc
from supervisor.host.ledger.run_archive import ArchivedAttempt, ArchivedRun, RunArchive
from supervisor.host.service.lock import is_locked
from supervisor.wire.paths import StatePaths

Supervised = Callable[[str], bool]
"""Whether somebody looks after the newest run of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt, for who looks back on it. None: not known."""

    attempt: int
    began_at: str
    """UTC, ISO 8601."""
    seconds: float | None
    """How long it was seen."""
    cause: str | None
    """Why it ended; None: it runs, or nobody knows."""
    asked: str | None
    """How it ended as it was asked to (``core.diagnosis.result.AskedEnd``); None: it was
    not asked, or an older version did not keep it."""
    remedy: str | None
    restored_step: int | None
    last_step: int | None
    snapshot_step: int | None
    batch: int | None
    slice_size: int | None
    promise: str | None
    """Why a bit-identical resume is not promised; None: it is."""
    series: dict[str, Any]
    """Columns by name: ``core.jobs.accounting.progress_series``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The newest run of a job and its attempts."""

    run: RunSummary
    attempts: list[AttemptRecord]


def summaries(
    ledger: Ledger, supervised: Supervised, *, now: float, job: str | None = None
) -> list[RunSummary]:
    """All runs, or those of ``job``, the oldest first; ``now`` in seconds since 1970."""
    runs = RunArchive(ledger).runs(job=job)
    newest = {run.job: run.number for run in runs}
    return [
        _summary(
            run,
            followed=newest[run.job] == run.number and supervised(run.job),
            now=now,
        )
        for run in runs
    ]


def record_of(
    ledger: Ledger, job: str, supervised: Supervised, *, now: float
) -> RunRecord | None:
    """The newest run of ``job``; None: there is none. Raises LedgerError."""
    archive = RunArchive(ledger)
    runs = [run for run in archive.runs(job=job) if not run.forgotten]
    if not runs:
        return None
    run = runs[-1]
    return RunRecord(
        run=_summary(run, followed=supervised(job), now=now),
        attempts=[_attempt(one) for one in archive.attempts(run.id)],
    )


def by_lock(paths: StatePaths) -> Supervised:
    """Told by the lock that who looks after a job holds: not for who holds it."""
    return lambda job: is_locked(paths.lock(job))


def _summary(run: ArchivedRun, *, followed: bool, now: float) -> RunSummary:
    over = run.state.ended
    state = run.state if over or followed else JobState.INTERRUPTED
    ended = run.ended_at if over else (now if followed else None)
    gpus = gpu_count(run.spec)
    return RunSummary(
        job=run.job,
        run=run.number,
        user=run.user,
        state=state,
        began_at=utc(run.began_at),
        ended_at=None if run.ended_at is None else utc(run.ended_at),
        elapsed_seconds=None
        if ended is None
        else max(ended - run.began_at - run.paused_seconds, 0.0),
        paused_seconds=run.paused_seconds,
        attempts=run.attempts,
        attempt_seconds=run.seconds,
        exit_code=EXIT_CODES.get(state),
        cause=run.cause,
        incidents=run.incidents,
        steps=run.steps,
        device_peak_bytes=run.device_peak,
        device_limit_bytes=run.device_limit,
        host_peak_bytes=run.host_peak,
        gpus=gpus,
        gpu_seconds=_gpu_seconds(gpus, run.seconds),
        lost_steps=run.lost_steps,
        downtime_seconds=run.downtime_seconds,
    )


def _gpu_seconds(gpus: int | None, seconds: float | None) -> float | None:
    if gpus == 0:
        return 0.0
    return None if gpus is None or seconds is None else gpus * seconds


def _attempt(one: ArchivedAttempt) -> AttemptRecord:
    history = one.history
    return AttemptRecord(
        attempt=history.number,
        began_at=utc(one.began_at),
        seconds=one.seconds,
        cause=history.cause,
        asked=history.asked,
        remedy=history.remedy,
        restored_step=history.restored_step,
        last_step=history.last_step,
        snapshot_step=history.snapshot_step,
        batch=history.batch,
        slice_size=history.slice_size,
        promise=None if history.unpromised is None else history.unpromised.because,
        series=one.series.to_json(),
    )
