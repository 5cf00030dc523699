"""The daemon's part of the ledger: jobs, who did what, and a few settings."""

import enum
import json
from dataclasses import dataclass
from typing import Any

from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_rows import Utc, rows_as


class WantedState(enum.StrEnum):
    """What the people who own a job want of it."""

    RUN = "run"
    """It should run to its end, through crashes and reboots."""
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job that the daemon knows."""

    name: str
    owner: str
    """The user it runs as."""
    source: str | None
    """The job file; None: it was submitted."""
    wanted: WantedState
    fresh: bool
    """Begin anew at the next start."""
    accept_changes: bool
    again: bool
    """Somebody asked for a start, or a restart, that has not happened yet."""
    turn: int
    """First come, first served: the order of submissions and starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Who did what."""

    id: int
    at: Utc
    who: str
    did: str
    job: str | None
    detail: str


class JobBook:
    """Jobs, audit and settings in a ledger. Everything may raise LedgerError."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(
        self,
        name: str,
        *,
        owner: str,
        spec: dict[str, Any],
        source: str | None,
        fresh: bool = False,
        accept_changes: bool = False,
        now: float,
    ) -> None:
        """A job that should run, new or with another spec; it takes the last turn."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "INSERT INTO jobs (name, owner, spec, source, wanted, fresh,"
                " accept_changes, submitted_at, turn, again) VALUES (?1, ?2, ?3, ?4, ?5,"
                " ?6, ?7, ?8, (SELECT coalesce(max(turn), 0) + 1 FROM jobs), 1)"
                " ON CONFLICT (name) DO UPDATE SET owner = ?2, spec = ?3, source = ?4,"
                " wanted = ?5, fresh = ?6, accept_changes = ?7, submitted_at = ?8,"
                " turn = excluded.turn, again = 1",
                (name, owner, json.dumps(spec), source, WantedState.RUN, fresh,
                 accept_changes, now),
            )  # fmt: skip

    def respec(self, name: str, spec: dict[str, Any]) -> None:
        """Another spec for the next start of a job, which keeps its turn."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET spec = ? WHERE name = ?", (json.dumps(spec), name)
            )

    def want(
        self,
        name: str,
        wanted: WantedState,
        *,
        fresh: bool = False,
        accept_changes: bool = False,
    ) -> None:
        """What is wanted of a job from now on; a start takes the last turn."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET wanted = ?2, fresh = ?3, accept_changes = ?4,"
                " again = (?2 = 'run'),"
                " turn = iif(?2 = 'run' AND wanted <> ?2,"
                " (SELECT max(turn) + 1 FROM jobs), turn) WHERE name = ?1",
                (name, wanted, fresh, accept_changes),
            )

    def asked_at(self) -> dict[str, float]:
        """When somebody asked for a run of each job last, in seconds since 1970."""
        query = (
            "SELECT job, max(at) FROM audit WHERE job IS NOT NULL"
            " AND did IN ('submit', 'start', 'restart') GROUP BY job"
        )
        return dict(self._ledger.rows(lambda row: (row[0], row[1]), query))

    def begun(self, name: str) -> None:
        """A job has begun: what was said about its beginning is used up."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET fresh = 0, accept_changes = 0, again = 0"
                " WHERE name = ?",
                (name,),
            )

    def forget(self, name: str) -> None:
        """A job is none any more."""
        with self._ledger.transaction() as connection:
            connection.execute("DELETE FROM jobs WHERE name = ?", (name,))

    def knows(self, name: str) -> bool:
        """Whether a daemon looks after a job of that name."""
        query = "SELECT name FROM jobs WHERE name = ?"
        return bool(self._ledger.rows(lambda row: row, query, name))

    def job(self, name: str) -> JobRow | None:
        """One job, by the name; None: there is no such job."""
        found = self._ledger.rows(
            rows_as(JobRow), "SELECT * FROM jobs WHERE name = ?", name
        )
        return found[0] if found else None

    def jobs(self) -> list[JobRow]:
        """All jobs, in the order of their turns."""
        return self._ledger.rows(rows_as(JobRow), "SELECT * FROM jobs ORDER BY turn")

    def specs(self) -> dict[str, dict[str, Any]]:
        """The tables of each job as they were given, by its name."""
        query = "SELECT name, spec FROM jobs"
        return dict(self._ledger.rows(lambda row: (row[0], json.loads(row[1])), query))

    def note(
        self, *, who: str, did: str, job: str | None, detail: str = "", now: float
    ) -> None:
        """Write down who did what."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "INSERT INTO audit (at, who, did, job, detail) VALUES (?, ?, ?, ?, ?)",
                (now, who, did, job, detail),
            )

    def audit(self, *, newest: int = 100) -> list[AuditRow]:
        """The newest entries, oldest first."""
        found = self._ledger.rows(
            rows_as(AuditRow), "SELECT * FROM audit ORDER BY id DESC LIMIT ?", newest
        )
        return found[::-1]

    def setting(self, name: str) -> Any:
        """The value of a setting; None: it was never set."""
        found = self._ledger.rows(
            lambda row: json.loads(row["value"]),
            "SELECT value FROM settings WHERE name = ?",
            name,
        )
        return found[0] if found else None

    def set(self, name: str, value: Any) -> None:
        """Set a setting."""
        with self._ledger.transaction() as connection:
            connection.execute(
                "INSERT INTO settings (name, value) VALUES (?1, ?2)"
                " ON CONFLICT (name) DO UPDATE SET value = ?2",
                (name, json.dumps(value)),
            )
