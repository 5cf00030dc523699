"""The rows of the ledger, as everybody else sees them."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.liveness.progress_intervals import ProgressIntervals
from supervisor.core.memory.fit_memory import FitMemory, SizePeaks
from supervisor.core.remediation.history import AttemptHistory, Unpromised
from supervisor.core.remediation.overrides import from_json
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.wire.oom_subject import OomSubject
from supervisor.wire.proof import Proof


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
    overrides: dict[str, Any] | None
    """What remedies put in force (``core.remediation.overrides``); None: nothing."""
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
    """``core.diagnosis.result.IncidentKind``: the attempt ended, or a snapshot was not saved."""
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
    """Which kind of shortage of memory, and who held what (``core.memory.oom_analysis``)."""
    proof: dict[str, Any] | None
    """Whether the resume after it continued to the bit (``core.remediation.proofs``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """One GPU that is kept out of use, in the shape that ``quarantine --json`` prints."""

    gpu: str
    job: str
    attempt: int
    at: str
    """UTC, ISO 8601."""
    because: str


_FORMER_NAMES = {
    "treatment": "overrides",
    "rhythms": "intervals",
    "rung": "remedy_step",
}
"""Fields of a history, as records of before have them."""


def run_of(row: sqlite3.Row) -> RunRow:
    """A row of ``runs``."""
    overrides = row["treatment"]
    return RunRow(
        id=row["id"],
        run_id=row["run_id"],
        job=row["job"],
        number=row["number"],
        script=row["script"],
        script_hash=row["script_hash"],
        seed=row["seed"],
        spec=json.loads(row["spec"]),
        overrides=None if overrides is None else json.loads(overrides),
        state=JobState(row["state"]),
        message=row["message"],
        began_at=row["began_at"],
        ended_at=row["ended_at"],
        place=row["place"],
        budget_since=row["budget_since"],
    )


def attempt_of(row: sqlite3.Row) -> AttemptHistory:
    """A row of ``attempts``."""
    stored = _with_names_of_today(json.loads(row["history"]))
    cause, remedy = stored["cause"], stored["remedy"]
    stored["cause"] = None if cause is None else Cause(cause)
    stored["remedy"] = None if remedy is None else RemedyKind(remedy)
    overrides = stored.get("overrides")
    stored["overrides"] = None if overrides is None else from_json(overrides)
    stored["intervals"] = tuple(
        ProgressIntervals(
            phase=one["phase"], count=one["count"], longest=tuple(one["longest"])
        )
        for one in stored.get("intervals", ())
    )
    stored["peaks"] = _peaks_of(stored)
    stored["earlier_fits"] = tuple(map(_fit_memory_of, stored.get("earlier_fits", ())))
    subject, unpromised = stored.get("subject"), stored.get("unpromised")
    stored["subject"] = None if subject is None else OomSubject(subject)
    stored["unpromised"] = None if unpromised is None else Unpromised(**unpromised)
    stored["proof"] = _proof_of(stored.get("proof"))
    return AttemptHistory(**stored)


def _proof_of(stored: dict[str, Any] | None) -> ResumeProof | None:
    if stored is None:
        return None
    known: dict[str, Any] = {**stored, "result": Proof(stored["result"])}
    return ResumeProof(**known)


def _with_names_of_today(stored: dict[str, Any]) -> dict[str, Any]:
    return {_FORMER_NAMES.get(name, name): value for name, value in stored.items()}


def _fit_memory_of(stored: dict[str, Any]) -> FitMemory:
    known: dict[str, Any] = {**stored, "peaks": _peaks_of(stored)}
    return FitMemory(**known)


def _peaks_of(stored: dict[str, Any]) -> tuple[SizePeaks, ...]:
    return tuple(SizePeaks(**one) for one in stored.get("peaks", ()))


def quarantined_of(row: sqlite3.Row) -> QuarantineRow:
    """A row of ``quarantine``, with the name of the job."""
    return QuarantineRow(
        gpu=row["gpu"],
        job=row["job"],
        attempt=row["attempt"],
        at=utc(row["at"]),
        because=row["because"],
    )


def incident_of(row: sqlite3.Row) -> IncidentRow:
    """A row of ``incidents``, with the name of the job."""
    memory, seen = row["memory"], row["acknowledged_at"]
    return IncidentRow(
        id=row["id"],
        job=row["job"],
        attempt=row["attempt"],
        at=utc(row["at"]),
        happened=row["happened"],
        autopsy=None if row["autopsy"] is None else json.loads(row["autopsy"]),
        proof=None if row["proof"] is None else json.loads(row["proof"]),
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
