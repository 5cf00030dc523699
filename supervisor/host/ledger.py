"""The ledger: runs, attempts and incidents in one SQLite file.

Foreground runs of several jobs share a state directory, so several processes write to
one ledger, seldom and little. That is what a rollback journal is for; WAL's gain is
concurrency nobody needs here, and SQLite before 3.51.3 can damage a WAL that two
connections reset at once. ``synchronous=FULL``: what was recorded survives power loss.
"""

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from supervisor.core.causes import Cause
from supervisor.core.effects import Quarantine, RecordIncident, UpdateIncident
from supervisor.core.history import AttemptHistory
from supervisor.core.rhythm import Rhythm
from supervisor.core.status import JobState
from supervisor.core.treatment import from_json
from supervisor.core.verdicts import RemedyKind
from supervisor.host.migrations import MIGRATIONS

BUSY_SECONDS = 10.0
"""How long a write waits for another process's."""

T = TypeVar("T")


class LedgerError(Exception):
    """The ledger cannot be used; the message is for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of a job."""

    id: int
    run_id: str
    job: str
    number: int
    """Counts the runs of a job, from 1."""
    script: str
    script_hash: str
    seed: int
    spec: dict[str, Any]
    treatment: dict[str, Any] | None
    """What remedies put in force (``core.treatment``); None: nothing."""
    state: JobState
    message: str
    began_at: float
    ended_at: float | None
    place: str | None = None
    """The state directory of the user who owns the run's files; None: the ledger's."""
    budget_since: int = 1
    """The first attempt since a person started it: what was before is forgiven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident, in the shape that ``incidents --json`` prints."""

    id: int
    job: str
    attempt: int
    at: str
    """UTC, ISO 8601."""
    happened: str
    """``core.effects.Happened``: the attempt ended, or a snapshot was not saved."""
    cause: str
    because: list[dict[str, Any]]
    remedy: dict[str, Any]
    failed_step: int | None
    restored_step: int | None
    lost_steps: int | None
    downtime_seconds: float | None
    memory: dict[str, Any] | None
    advice: str
    deviations: list[str]
    acknowledged_at: str | None
    """UTC; None: nobody has said that it was seen."""
    acknowledged_by: str | None
    stacks: str
    """Of all threads, where it was killed for a hang; else empty."""
    autopsy: dict[str, Any] | None
    """Which kind of shortage of memory, and who held what (``core.autopsy``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """One GPU that is kept out of use, in the shape that ``quarantine --json`` prints."""

    gpu: str
    job: str
    attempt: int
    at: str
    """UTC, ISO 8601."""
    because: str


class Ledger:
    """One connection to the ledger of a state directory."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open ``path``, creating or migrating it unless ``read_only``.

        Raises:
            LedgerError: it cannot be opened, or a newer version has written it.
        """
        self.path = path
        mode = "ro" if read_only else "rwc"
        with self._explained():
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA foreign_keys=ON")
            if not read_only:
                self._connection.execute("PRAGMA synchronous=FULL")
            self._migrate(read_only=read_only)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            message = f"the ledger {self.path} cannot be used: {error}"
            raise LedgerError(message) from error

    def _in_transaction(self) -> bool:
        return self._connection.in_transaction

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All or nothing; inside of another it is a part of that. Raises LedgerError."""
        if self._in_transaction():
            yield self._connection
            return
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _version(self) -> int:
        row = self._connection.execute("PRAGMA user_version").fetchone()
        return int(row[0])

    def _migrate(self, *, read_only: bool) -> None:
        version = self._version()
        if version > len(MIGRATIONS):
            message = (
                f"the ledger {self.path} was written by a newer version of trainwarden "
                f"(schema {version}, this one knows {len(MIGRATIONS)}): upgrade again"
            )
            raise LedgerError(message)
        if read_only or version == len(MIGRATIONS):
            return
        with self.transaction() as connection:
            for script in MIGRATIONS[self._version() :]:  # another may have been first
                for statement in filter(str.strip, script.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")

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
        """A new run of ``job``; ``now`` in seconds since 1970."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO runs (run_id, job, number, script, script_hash, seed,"
                " spec, state, began_at, place) VALUES (?, ?, (SELECT coalesce("
                "max(number), 0) + 1 FROM runs WHERE job = ?), ?, ?, ?, ?, ?, ?, ?)",
                (run_id, job, job, script, script_hash, seed, json.dumps(spec),
                 JobState.WAITING, now, place),
            )  # fmt: skip
        latest = self.latest_run(job)
        assert latest is not None  # noqa: S101  # it was just written
        return latest

    def resume_run(self, run: int, *, script_hash: str, spec: dict[str, Any]) -> None:
        """A person starts run ``run`` again, perhaps with another spec."""
        with self.transaction() as connection:
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
        treatment: dict[str, Any] | None,
        ended_at: float | None,
    ) -> None:
        """Where run ``run`` is now."""
        stored = None if treatment is None else json.dumps(treatment)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, message = ?, treatment = ?, ended_at = ?"
                " WHERE id = ?",
                (state, message, stored, ended_at, run),
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
                " advice, remedy, failed_step, happened, stacks, autopsy)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run, attempt, happened) DO NOTHING",
                (
                    run,
                    effect.attempt,
                    now,
                    diagnosis.cause,
                    json.dumps([asdict(reason) for reason in diagnosis.because]),
                    None if memory is None else json.dumps(memory),
                    diagnosis.advice,
                    json.dumps(
                        {
                            "kind": effect.remedy.kind,
                            "changes": effect.remedy.changes,
                            "because": effect.remedy.because,
                        }
                    ),
                    effect.failed_step,
                    effect.happened,
                    effect.stacks,
                    None if autopsy is None else json.dumps(autopsy.to_json()),
                ),
            )

    def update_incident(self, run: int, effect: UpdateIncident) -> None:
        """Add what became of an attempt's end; what is None stays as it was."""
        deviations = json.dumps(effect.deviations) if effect.deviations else None
        with self.transaction() as connection:
            if effect.slices is not None:
                connection.execute(
                    "UPDATE incidents SET"
                    " remedy = json_set(remedy, '$.changes.slices[1]', ?)"
                    " WHERE run = ? AND attempt = ? AND happened = 'ended'",
                    (effect.slices, run, effect.attempt),
                )
            connection.execute(
                "UPDATE incidents SET restored_step = coalesce(?, restored_step),"
                " lost_steps = coalesce(?, lost_steps),"
                " downtime_seconds = coalesce(?, downtime_seconds),"
                " deviations = coalesce(?, deviations)"
                " WHERE run = ? AND attempt = ? AND happened IN ('ended', 'planned')",
                (effect.restored_step, effect.lost_steps, effect.downtime_seconds,
                 deviations, run, effect.attempt),
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

    def backup(self, target: Path) -> None:
        """Copy the ledger, whole and consistent, while it is in use.

        Raises:
            LedgerError: it could not be written; ``target`` is then not there.
        """
        partial = target.with_name(f".{target.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            with (
                self._explained(),
                contextlib.closing(sqlite3.connect(partial)) as copy,
            ):
                self._connection.backup(copy)
            partial.rename(target)
        except OSError as error:
            message = f"the backup {target} cannot be written: {error.strerror}"
            raise LedgerError(message) from error
        finally:
            partial.unlink(missing_ok=True)

    def rows(
        self, make: Callable[[sqlite3.Row], T], query: str, *values: object
    ) -> list[T]:
        """What ``query`` finds, each row made by ``make``. Raises LedgerError."""
        with self._explained():
            return [make(row) for row in self._connection.execute(query, values)]

    def latest_run(self, job: str) -> RunRow | None:
        """The newest run of ``job``."""
        rows = self.rows(
            _run,
            "SELECT * FROM runs WHERE job = ? ORDER BY number DESC LIMIT 1",
            job,
        )
        return rows[0] if rows else None

    def latest_runs(self) -> list[RunRow]:
        """The newest run of every job, by name."""
        return self.rows(
            _run,
            "SELECT * FROM runs AS r WHERE number = (SELECT max(number) FROM runs"
            " WHERE job = r.job) ORDER BY job",
        )

    def attempts(self, run: int) -> tuple[AttemptHistory, ...]:
        """What is known of the attempts of a run, oldest first."""
        return tuple(
            self.rows(
                _attempt, "SELECT * FROM attempts WHERE run = ? ORDER BY number", run
            )
        )

    def incidents(
        self,
        *,
        job: str | None = None,
        incident: int | None = None,
        run: int | None = None,
    ) -> list[IncidentRow]:
        """Incidents, oldest first: all, those of ``job`` or of ``run``, or that one."""
        return self.rows(
            _incident,
            "SELECT incidents.*, runs.job FROM incidents"
            " JOIN runs ON runs.id = incidents.run"
            " WHERE (?1 IS NULL OR runs.job = ?1)"
            " AND (?2 IS NULL OR incidents.id = ?2)"
            " AND (?3 IS NULL OR incidents.run = ?3) ORDER BY incidents.id",
            job,
            incident,
            run,
        )

    def counts(self, job: str) -> Counter[tuple[Cause, RemedyKind]]:
        """How many attempts of ``job`` ended badly, by cause and remedy."""
        found = self.rows(
            lambda row: ((Cause(row[0]), RemedyKind(row[1])), int(row[2])),
            "SELECT cause, json_extract(remedy, '$.kind') AS kind, count(*)"
            " FROM incidents JOIN runs ON runs.id = incidents.run"
            " WHERE runs.job = ? AND happened = 'ended' GROUP BY cause, kind",
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
            _quarantined,
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


def _run(row: sqlite3.Row) -> RunRow:
    treatment = row["treatment"]
    return RunRow(
        id=row["id"],
        run_id=row["run_id"],
        job=row["job"],
        number=row["number"],
        script=row["script"],
        script_hash=row["script_hash"],
        seed=row["seed"],
        spec=json.loads(row["spec"]),
        treatment=None if treatment is None else json.loads(treatment),
        state=JobState(row["state"]),
        message=row["message"],
        began_at=row["began_at"],
        ended_at=row["ended_at"],
        place=row["place"],
        budget_since=row["budget_since"],
    )


def _attempt(row: sqlite3.Row) -> AttemptHistory:
    stored = json.loads(row["history"])
    cause, remedy = stored["cause"], stored["remedy"]
    stored["cause"] = None if cause is None else Cause(cause)
    stored["remedy"] = None if remedy is None else RemedyKind(remedy)
    treatment = stored.get("treatment")
    stored["treatment"] = None if treatment is None else from_json(treatment)
    stored["rhythms"] = tuple(
        Rhythm(phase=one["phase"], count=one["count"], longest=tuple(one["longest"]))
        for one in stored.get("rhythms", ())
    )
    return AttemptHistory(**stored)


def _quarantined(row: sqlite3.Row) -> QuarantineRow:
    return QuarantineRow(
        gpu=row["gpu"],
        job=row["job"],
        attempt=row["attempt"],
        at=utc(row["at"]),
        because=row["because"],
    )


def _incident(row: sqlite3.Row) -> IncidentRow:
    memory, seen = row["memory"], row["acknowledged_at"]
    return IncidentRow(
        id=row["id"],
        job=row["job"],
        attempt=row["attempt"],
        at=utc(row["at"]),
        happened=row["happened"],
        autopsy=None if row["autopsy"] is None else json.loads(row["autopsy"]),
        cause=row["cause"],
        because=json.loads(row["because"]),
        remedy=json.loads(row["remedy"]),
        failed_step=row["failed_step"],
        restored_step=row["restored_step"],
        lost_steps=row["lost_steps"],
        downtime_seconds=row["downtime_seconds"],
        memory=None if memory is None else json.loads(memory),
        advice=row["advice"],
        deviations=json.loads(row["deviations"]),
        acknowledged_at=None if seen is None else utc(seen),
        acknowledged_by=row["acknowledged_by"],
        stacks=row["stacks"],
    )


def utc(seconds: float) -> str:
    """Seconds since 1970 as people read them: ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
