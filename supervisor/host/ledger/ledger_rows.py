"""The rows of the ledger, as everybody else sees them."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import (
    BeforeValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from supervisor.core.advisories.advisory import AdvisoryKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.run_state import Offer
from supervisor.core.metrics.run_counters import KeptSeconds
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.overrides import Overrides
from supervisor.host.ledger.ledger_file import LedgerError

Record = TypeVar("Record")
Stored = Annotated[Record, BeforeValidator(json.loads)]
"""In the ledger JSON, and not pydantic's own: that refuses half of a surrogate pair, which
a script may well have in what it says."""


def _or_none(value: object, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValueError:
        return None


def utc(seconds: float) -> str:
    """Seconds since 1970 as people read them: ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


Utc = Annotated[str, BeforeValidator(utc)]
"""UTC, ISO 8601; in the ledger seconds since 1970."""


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
    spec: Stored[dict[str, Any]]
    overrides: Stored[Overrides] | None
    """What remedies put in force; None: nothing."""
    state: JobState
    message: str
    ended_at: float | None
    place: str | None = None
    """The state directory of the user who owns the run's files; None: the ledger's."""
    between_attempts: Stored[KeptSeconds] | None = None
    """Time that was counted; None: none was, or an older version did not keep it."""
    user: str | None = None
    """Who began it; None: an older version did not keep it."""
    offer: Annotated[Stored[Offer] | None, WrapValidator(_or_none)] = None
    """A failed step that an attempt was allowed to go on after; None: it has, or ended, or
    another version wrote it: a run is not lost for what one incident would have been."""
    budget_since: int = 1
    """The first attempt since a person started it: what was before is forgiven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident, in the shape that ``incidents --json`` prints."""

    id: int
    job: str
    attempt: int
    recovery: int
    """Which failure it is that the attempt went on after in its process, from 1; 0: none."""
    at: Utc
    happened: str
    """``core.diagnosis.result.IncidentKind``: the attempt ended, or a snapshot was not saved."""
    cause: str
    because: Stored[list[dict[str, Any]]]
    remedy: Stored[dict[str, Any]]
    failed_step: int | None
    restored_step: int | None
    lost_steps: int | None
    downtime_seconds: float | None
    memory: Stored[dict[str, Any]] | None
    advice: str
    deviations: Stored[list[str]]
    acknowledged_at: Utc | None
    """None: nobody has said that it was seen."""
    acknowledged_by: str | None
    stacks: str
    """Of all threads, where it was killed for a hang or crashed in native code; else
    empty."""
    autopsy: Stored[dict[str, Any]] | None
    """Which kind of shortage of memory, and who held what (``core.memory.oom_analysis``)."""
    proof: Stored[dict[str, Any]] | None
    """Whether the resume after it continued to the bit (``core.remediation.proofs``)."""

    def for_others(self) -> "IncidentRow":
        """Without what comes from the job's output, its arguments or its processes."""
        return replace(
            self,
            because=[],
            remedy={"kind": self.remedy["kind"], "because": "", "changes": {}},
            memory=None,
            deviations=[],
            stacks="",
            autopsy=None,
            proof=None,
            advice=f"Details are for the owner of {self.job} and for admins.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """One GPU that is kept out of use, in the shape that ``quarantine --json`` prints."""

    gpu: str
    job: str
    attempt: int
    at: Utc
    because: str


UNKNOWN = (
    "the ledger has a record that this version of trainwarden does not know ({} is {!r}): a"
    " newer one wrote it, or it is damaged. Upgrade again, or use another --state-dir"
)
_KINDS = frozenset(AdvisoryKind)
_FORMER_NAMES = {
    "treatment": "overrides",
    "rhythms": "intervals",
    "rung": "remedy_step",
}
"""A column of ``runs`` and fields of a history, as records of before have them."""


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def record_of(kind: type[Record], stored: dict[str, Any]) -> Record:
    """The ``kind`` with the fields that ``stored`` has of it. Raises LedgerError for what
    this version does not know."""
    named = {_FORMER_NAMES.get(name, name): value for name, value in stored.items()}
    try:
        record: Record = _adapter(kind).validate_python(named)  # type: ignore[arg-type]  # a class is hashable
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LedgerError(UNKNOWN.format(place, first["input"])) from None
    return record


def rows_as(kind: type[Record]) -> Callable[[sqlite3.Row], Record]:
    """What makes a ``kind`` of a row with columns of the names of its fields."""
    return lambda row: record_of(kind, dict(row))


def attempt_of(row: Mapping[str, Any] | sqlite3.Row) -> AttemptHistory:
    """A row of ``attempts``, without the advice of a newer version, which only it can give."""
    told = json.loads(row["history"])
    advisories = [one for one in told.get("advisories", ()) if one["kind"] in _KINDS]
    return record_of(AttemptHistory, {**told, "advisories": advisories})
