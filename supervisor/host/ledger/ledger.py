"""The ledger: runs, attempts, incidents and quarantined GPUs in one SQLite file.

``ledger_file`` is the file itself, ``ledger_rows`` what is read from it, ``job_book``
the daemon's part of it.
"""

import json
import os
import sqlite3
from collections import Counter
from dataclasses import asdict
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import (
    Remedy,
    RemedyKind,
    slices_asked,
    with_slices,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import (
    Quarantine,
    RecordIncident,
    ReviseAdvice,
    UpdateIncident,
)
from supervisor.core.lifecycle.run_state import Offer
from supervisor.core.metrics.run_counters import KeptSeconds
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger_file import LedgerError, LedgerFile
from supervisor.host.ledger.ledger_rows import (
    IncidentRow,
    QuarantineRow,
    RunRow,
    attempt_of,
    rows_as,
    utc,
)
from supervisor.host.service.user_name import user_name

__all__ = ["IncidentRow", "Ledger", "LedgerError", "QuarantineRow", "RunRow", "utc"]


class Ledger(LedgerFile):
    """One connection to the ledger of a state directory."""

    def begin_run(
        self,
        *,
        run_id: str,
        job: str,
        script: str,
        script_hash: str,
        seed: int,
        spec: dict[str, Any],
        now: float,
        place: str | None = None,
    ) -> RunRow:
        """A new run of ``job``; ``now`` in seconds since 1970. It is its owner's, where a
        daemon has the job, else ours."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO runs (run_id, job, number, script, script_hash, seed,"
                " spec, state, began_at, place, user) VALUES (?1, ?2, (SELECT coalesce("
                "max(number), 0) + 1 FROM runs WHERE job = ?2), ?3, ?4, ?5, ?6, ?7, ?8,"
                " ?9, coalesce((SELECT owner FROM jobs WHERE name = ?2), ?10))",
                (run_id, job, script, script_hash, seed, json.dumps(spec),
                 JobState.WAITING, now, place, user_name(os.geteuid())),
            )  # fmt: skip
        latest = self.latest_run(job)
        assert latest is not None  # noqa: S101  # it was just written
        return latest

    def resume_run(
        self, run: int, *, script_hash: str, spec: dict[str, Any], now: float
    ) -> None:
        """A person starts run ``run`` again, perhaps with another spec. Since it ended
        nothing ran: that is none of the time that it took."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET paused_seconds = paused_seconds"
                " + max(?1 - coalesce(ended_at, ?1), 0.0) WHERE id = ?2",
                (now, run),
            )
            connection.execute(
                "UPDATE runs SET state = ?1, script_hash = ?2, spec = ?3, ended_at = NULL,"
                " budget_since = (SELECT coalesce(max(number), 0) + 1 FROM attempts"
                " WHERE run = ?4) WHERE id = ?4",
                (JobState.WAITING, script_hash, json.dumps(spec), run),
            )

    def set_state(
        self,
        run: int,
        *,
        state: JobState,
        message: str,
        overrides: dict[str, Any] | None,
        ended_at: float | None,
    ) -> None:
        """Where run ``run`` is now."""
        stored = None if overrides is None else json.dumps(overrides)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, message = ?, treatment = ?, ended_at = ?"
                " WHERE id = ?",
                (state, message, stored, ended_at, run),
            )

    def put_offer(self, run: int, offer: Offer | None) -> None:
        """What the attempt of run ``run`` may go on after; None: nothing any more."""
        stored = None if offer is None else json.dumps(asdict(offer))
        with self.transaction() as connection:
            connection.execute("UPDATE runs SET offer = ? WHERE id = ?", (stored, run))

    def put_between(self, run: int, kept: KeptSeconds) -> None:
        """The time between attempts that was counted of run ``run``."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET between_attempts = ? WHERE id = ?",
                (json.dumps(asdict(kept)), run),
            )

    def put_attempt(self, run: int, attempt: AttemptHistory, *, now: float) -> None:
        """What is known of an attempt; the newest call wins."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO attempts (run, number, began_at, history)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (run, number)"
                " DO UPDATE SET history = excluded.history",
                (run, attempt.number, now, json.dumps(asdict(attempt))),
            )

    def record_incident(self, run: int, effect: RecordIncident, *, now: float) -> None:
        """Write an incident down, once: a second one of its kind is ignored."""
        diagnosis, autopsy = effect.diagnosis, effect.diagnosis.autopsy
        memory = None if diagnosis.memory is None else asdict(diagnosis.memory)
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO incidents (run, attempt, at, cause, because, memory,"
                " advice, remedy, failed_step, happened, stacks, autopsy, recovery)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run, attempt, happened, recovery) DO NOTHING",
                (
                    run,
                    effect.attempt,
                    now,
                    diagnosis.cause,
                    json.dumps([asdict(reason) for reason in diagnosis.because]),
                    None if memory is None else json.dumps(memory),
                    diagnosis.advice,
                    json.dumps(_remedy_json(effect.remedy)),
                    effect.failed_step,
                    effect.happened,
                    effect.stacks,
                    None if autopsy is None else json.dumps(asdict(autopsy)),
                    effect.recovery,
                ),
            )

    def revise_advice(self, run: int, effect: ReviseAdvice) -> None:
        """Put another advice with all incidents of a kind."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE incidents SET advice = ? WHERE run = ? AND happened = ?",
                (effect.advice, run, effect.happened),
            )

    def update_incident(self, run: int, effect: UpdateIncident) -> None:
        """Add what became of an attempt's end; what is None stays as it was."""
        deviations = json.dumps(effect.deviations) if effect.deviations else None
        with self.transaction() as connection:
            if effect.slices is not None:
                _put_slices(connection, run, effect, effect.slices)
            if effect.note is not None:
                connection.execute(
                    "UPDATE incidents SET deviations = json_insert(deviations, '$[#]', ?)"
                    " WHERE run = ? AND attempt = ? AND recovery = ?"
                    " AND happened IN ('ended', 'recovered')",
                    (effect.note, run, effect.attempt, effect.recovery),
                )
            if effect.proof is not None:
                connection.execute(
                    "UPDATE incidents SET proof = ? WHERE run = ? AND attempt = ?"
                    " AND recovery = ? AND happened IN ('ended', 'planned', 'recovered')",
                    (
                        json.dumps(effect.proof.to_json()),
                        run,
                        effect.attempt,
                        effect.recovery,
                    ),
                )
            connection.execute(
                "UPDATE incidents SET restored_step = coalesce(?, restored_step),"
                " lost_steps = coalesce(?, lost_steps),"
                " downtime_seconds = coalesce(?, downtime_seconds),"
                " deviations = coalesce(?, deviations)"
                " WHERE run = ? AND attempt = ? AND recovery = ?"
                " AND happened IN ('ended', 'planned', 'recovered')",
                (effect.restored_step, effect.lost_steps, effect.downtime_seconds,
                 deviations, run, effect.attempt, effect.recovery),
            )  # fmt: skip

    def acknowledge(self, incident: int, *, by: str, now: float) -> bool:
        """Somebody has seen an incident; False: there is none of that number."""
        with self.transaction() as connection:
            done = connection.execute(
                "UPDATE incidents SET acknowledged_at = coalesce(acknowledged_at, ?),"
                " acknowledged_by = coalesce(acknowledged_by, ?) WHERE id = ?",
                (now, by, incident),
            )
        return done.rowcount == 1

    def latest_run(self, job: str) -> RunRow | None:
        """The newest run of ``job`` that is not forgotten."""
        rows = self.rows(
            rows_as(RunRow),
            "SELECT * FROM runs WHERE job = ? AND forgotten_at IS NULL"
            " ORDER BY number DESC LIMIT 1",
            job,
        )
        return rows[0] if rows else None

    def knows_run(self, run_id: str) -> bool:
        """Whether a run of this identity was ever written down, forgotten or not."""
        query = "SELECT 1 FROM runs WHERE run_id = ?"
        return bool(self.rows(lambda row: row[0], query, run_id))

    def latest_runs(self) -> list[RunRow]:
        """The newest run of every job that is not forgotten, by name."""
        return self.rows(
            rows_as(RunRow),
            "SELECT * FROM runs AS r WHERE number = (SELECT max(number) FROM runs"
            " WHERE job = r.job) AND forgotten_at IS NULL ORDER BY job",
        )

    def forget(self, job: str, *, now: float) -> bool:
        """Take ``job`` off the list: the next of its name is another one. Its incidents
        stay. False: there is none."""
        with self.transaction() as connection:
            done = connection.execute(
                "UPDATE runs SET forgotten_at = ? WHERE job = ? AND forgotten_at IS NULL",
                (now, job),
            )
        return done.rowcount > 0

    def attempts(self, run: int) -> tuple[AttemptHistory, ...]:
        """What is known of the attempts of a run, oldest first."""
        return tuple(
            self.rows(
                attempt_of, "SELECT * FROM attempts WHERE run = ? ORDER BY number", run
            )
        )

    def incidents(
        self,
        *,
        job: str | None = None,
        incident: int | None = None,
        run: int | None = None,
        place: str | None = None,
    ) -> list[IncidentRow]:
        """Incidents, oldest first: all, those of ``job`` or of ``run``, or that one;
        ``place``: of runs whose files lie there."""
        return self.rows(
            rows_as(IncidentRow),
            "SELECT incidents.*, runs.job FROM incidents"
            " JOIN runs ON runs.id = incidents.run"
            " WHERE (?1 IS NULL OR runs.job = ?1)"
            " AND (?2 IS NULL OR incidents.id = ?2)"
            " AND (?3 IS NULL OR incidents.run = ?3)"
            " AND (?4 IS NULL OR runs.place = ?4) ORDER BY incidents.id",
            job,
            incident,
            run,
            place,
        )

    def counts(self, job: str) -> Counter[tuple[Cause, RemedyKind]]:
        """How many failures ``job`` had, by cause and remedy."""
        found = self.rows(
            lambda row: ((Cause(row[0]), RemedyKind(row[1])), int(row[2])),
            "SELECT cause, json_extract(remedy, '$.kind') AS kind, count(*)"
            " FROM incidents JOIN runs ON runs.id = incidents.run"
            " WHERE runs.job = ? AND forgotten_at IS NULL"
            " AND happened IN ('ended', 'recovered') GROUP BY cause, kind",
            job,
        )
        return Counter(dict(found))

    def quarantine(self, run: int, effect: Quarantine, *, now: float) -> None:
        """Keep GPUs out of use until ``put_back``; ``now`` in seconds since 1970."""
        with self.transaction() as connection:
            for gpu in effect.gpus:
                connection.execute(
                    "INSERT INTO quarantine (gpu, run, attempt, at, because)"
                    " SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM"
                    " quarantine WHERE gpu = ?1 AND returned_at IS NULL)",
                    (gpu, run, effect.attempt, now, effect.because),
                )

    def quarantined(self) -> list[QuarantineRow]:
        """The GPUs of this box that are kept out of use, oldest first."""
        return self.rows(
            rows_as(QuarantineRow),
            "SELECT quarantine.*, runs.job FROM quarantine"
            " JOIN runs ON runs.id = quarantine.run"
            " WHERE returned_at IS NULL ORDER BY quarantine.id",
        )

    def put_back(self, gpu: str, *, now: float) -> bool:
        """A person says that ``gpu`` may be used again; False: it was not kept out."""
        with self.transaction() as connection:
            changed = connection.execute(
                "UPDATE quarantine SET returned_at = ?"
                " WHERE gpu = ? AND returned_at IS NULL",
                (now, gpu),
            )
            return changed.rowcount > 0


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    """``remedy`` as an incident has it."""
    told = {
        "kind": remedy.kind,
        "changes": remedy.changes,
        "because": remedy.because,
    }
    slices = slices_asked(remedy.changes)
    return told if slices is None else {**told, "slices": slices}


def _put_slices(
    connection: sqlite3.Connection, run: int, effect: UpdateIncident, slices: int
) -> None:
    """The number that an attempt has found, beside the one that was asked for."""
    about = (run, effect.attempt, effect.recovery)
    found = connection.execute(
        "SELECT id, remedy FROM incidents WHERE run = ? AND attempt = ?"
        " AND recovery = ? AND happened IN ('ended', 'recovered')",
        about,
    ).fetchall()
    for row in found:
        remedy = with_slices(
            json.loads(row["remedy"]), slices, measured=effect.slices_measured
        )
        connection.execute(
            "UPDATE incidents SET remedy = ? WHERE id = ?",
            (json.dumps(remedy), row["id"]),
        )
