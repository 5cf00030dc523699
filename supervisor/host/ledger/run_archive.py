"""The archive of runs: what is told of them when they are over, and how they went.

Series are kept of the newest attempts alone (``KEPT``); what they add up to, of all.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from supervisor.core.jobs.accounting.progress_series import (
    ProgressSeries,
    series_from_json,
)
from supervisor.core.jobs.accounting.snapshot_stats import (
    SnapshotStats,
    totals_from_json,
    totals_to_json,
)
from supervisor.core.jobs.accounting.steps_done_again import (
    AttemptSpan,
    untold_steps,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_rows import Stored, attempt_of, rows_as

KEPT = 64
"""Attempts of a run whose series is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRun:
    """One run and what its attempts add up to. None: not known."""

    id: int
    job: str
    number: int
    user: str | None
    state: JobState
    began_at: float
    ended_at: float | None
    """In seconds since 1970; None: it has not."""
    paused_seconds: float
    """How long it had ended before a person let it go on."""
    forgotten: bool
    spec: Stored[dict[str, Any]]
    attempts: int
    seconds: float | None
    """Of all attempts together."""
    device_peak: int | None
    """The most that an allocator held, in bytes, of all attempts."""
    device_limit: int | None
    """What that allocator had to keep to."""
    host_peak: int | None
    steps: int | None
    incidents: int
    lost_steps: int
    """Done again: those that incidents tell of, and those of attempts that were ended at
    once."""
    downtime_seconds: float
    cause: str | None
    """Of the newest end of an attempt that was an incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedAttempt:
    """One attempt: what the ledger has of it."""

    began_at: float
    """In seconds since 1970."""
    seconds: float | None
    """How long it was seen."""
    history: AttemptHistory
    series: ProgressSeries


class RunArchive:
    """Past runs in a ledger. Everything may raise LedgerError."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put_progress(self, run: int, attempt: int, series: ProgressSeries) -> None:
        """How an attempt went so far; the newest call wins."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "INSERT INTO progress (run, attempt, seconds, device_peak, host_peak,"
                " series, device_limit) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                " ON CONFLICT (run, attempt) DO UPDATE SET seconds = ?3,"
                " device_peak = ?4, host_peak = ?5, series = ?6, device_limit = ?7",
                (run, attempt, series.seconds, series.device_peak_bytes,
                 series.host_peak_bytes, json.dumps(series.to_json()),
                 series.device_limit_bytes),
            )  # fmt: skip
            connection.execute(
                "UPDATE progress SET series = '' WHERE run = ? AND attempt <= ?"
                " AND series <> ''",
                (run, attempt - KEPT),
            )

    def series(self, run: int, attempt: int) -> ProgressSeries:
        """How an attempt went; empty where nobody knows."""
        found = self._ledger.rows(
            lambda row: _series(row["series"]),
            "SELECT series FROM progress WHERE run = ? AND attempt = ?",
            run,
            attempt,
        )
        return found[0] if found else ProgressSeries()

    def put_snapshots(self, run: int, attempt: int, totals: SnapshotStats) -> None:
        """What an attempt that has ended told of its snapshots."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "INSERT INTO snapshot_totals (run, attempt, totals) VALUES (?1, ?2, ?3)"
                " ON CONFLICT (run, attempt) DO UPDATE SET totals = ?3",
                (run, attempt, json.dumps(totals_to_json(totals))),
            )

    def snapshots(self, run: int) -> dict[int, SnapshotStats]:
        """The same of each attempt of a run of which it was written down."""
        found = self._ledger.rows(
            lambda row: (row["attempt"], totals_from_json(json.loads(row["totals"]))),
            "SELECT attempt, totals FROM snapshot_totals WHERE run = ?",
            run,
        )
        return dict(found)

    def device_peak(self, run: int) -> tuple[int | None, int | None]:
        """The most that an allocator held, of all attempts, and what it had to keep to;
        in bytes, None: not known."""
        found = self._ledger.rows(
            lambda row: (row["device_peak"], row["device_limit"]), _PEAK, run
        )
        return found[0] if found else (None, None)

    def began_at(self, run: int, attempt: int) -> float | None:
        """When an attempt began, in seconds since 1970; None: it is not known."""
        found = self._ledger.rows(
            lambda row: float(row["began_at"]),
            "SELECT began_at FROM attempts WHERE run = ? AND number = ?",
            run,
            attempt,
        )
        return found[0] if found else None

    def attempts(self, run: int) -> list[ArchivedAttempt]:
        """Those of a run, oldest first."""
        return self._ledger.rows(
            lambda row: ArchivedAttempt(
                began_at=row["began_at"],
                seconds=row["seconds"],
                history=attempt_of(row),
                series=_series(row["series"]),
            ),
            "SELECT attempts.*, seconds, series FROM attempts LEFT JOIN progress"
            " ON progress.run = attempts.run AND progress.attempt = attempts.number"
            " WHERE attempts.run = ? ORDER BY number",
            run,
        )

    def runs(self, *, job: str | None = None) -> list[ArchivedRun]:
        """All runs, or those of ``job``: the oldest first."""
        found = self._ledger.rows(rows_as(ArchivedRun), _RUNS, job)
        spans = self._spans(job)
        return [
            replace(run, lost_steps=run.lost_steps + untold_steps(spans[run.id]))
            for run in found
        ]

    def _spans(self, job: str | None) -> dict[int, list[AttemptSpan]]:
        """The attempts of each run that had more than one, oldest first."""
        found: dict[int, list[AttemptSpan]] = defaultdict(list)
        for run, span in self._ledger.rows(
            lambda row: (
                row["run"],
                AttemptSpan(
                    restored_step=row["restored_step"],
                    last_step=row["last_step"],
                    told=bool(row["told"]),
                ),
            ),
            _SPANS,
            job,
        ):
            found[run].append(span)
        return found


def _series(stored: str | None) -> ProgressSeries:
    return series_from_json(json.loads(stored)) if stored else ProgressSeries()


_PEAK = """
SELECT device_peak, device_limit FROM progress WHERE run = ? AND device_peak IS NOT NULL
    ORDER BY device_peak DESC, attempt DESC LIMIT 1
"""
_RUNS = """
SELECT runs.id, job, number, user, state, began_at, ended_at, paused_seconds, spec,
    forgotten_at IS NOT NULL AS forgotten,
    (SELECT count(*) FROM attempts WHERE run = runs.id) AS attempts,
    (SELECT sum(seconds) FROM progress WHERE run = runs.id) AS seconds,
    (SELECT max(device_peak) FROM progress WHERE run = runs.id) AS device_peak,
    (SELECT device_limit FROM progress WHERE run = runs.id AND device_peak IS NOT NULL
        ORDER BY device_peak DESC, attempt DESC LIMIT 1) AS device_limit,
    (SELECT max(host_peak) FROM progress WHERE run = runs.id) AS host_peak,
    (SELECT max(json_extract(history, '$.last_step')) FROM attempts
        WHERE run = runs.id) AS steps,
    (SELECT count(*) FROM incidents WHERE run = runs.id) AS incidents,
    (SELECT coalesce(sum(lost_steps), 0) FROM incidents WHERE run = runs.id)
        AS lost_steps,
    (SELECT coalesce(sum(downtime_seconds), 0.0) FROM incidents WHERE run = runs.id)
        AS downtime_seconds,
    (SELECT cause FROM incidents WHERE run = runs.id AND happened = 'ended'
        ORDER BY id DESC LIMIT 1) AS cause
FROM runs WHERE ?1 IS NULL OR job = ?1 ORDER BY began_at, runs.id
"""
_SPANS = """
SELECT attempts.run, coalesce(json_extract(history, '$.recoveries[0].restored_step'),
        json_extract(history, '$.restored_step')) AS restored_step,
    json_extract(history, '$.last_step') AS last_step,
    EXISTS (SELECT 1 FROM incidents WHERE incidents.run = attempts.run
        AND attempt = attempts.number AND happened IN ('ended', 'planned')) AS told
FROM attempts JOIN runs ON runs.id = attempts.run
WHERE (?1 IS NULL OR job = ?1)
    AND (SELECT count(*) FROM attempts AS a WHERE a.run = runs.id) > 1
ORDER BY attempts.run, attempts.number
"""
