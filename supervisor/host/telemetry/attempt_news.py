"""What the records of an event file are to the core: events, at most one each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.core.lifecycle.events import (
    Applied,
    Event,
    NoticeReceived,
    ProgressReported,
    ProofReported,
    SnapshotFailed,
    WentOn,
)
from supervisor.core.memory.step_budget import too_large
from supervisor.core.remediation.history import Unpromised
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.host.telemetry import record_fields
from supervisor.wire.event_file import NO_ROOM, Record, RecordKind
from supervisor.wire.legacy_reasons import size_source
from supervisor.wire.reasons import SizeSource
from supervisor.wire.snapshots.manifest import MEMORY
from supervisor.wire.snapshots.proof import Proof


def learned(record: Record) -> ProgressReported | None:
    """What the core should know of ``record``; None: nothing.

    Not of snapshots in memory: they come several times a second, each piece of news is
    written to the ledger, and both tiers are looked at when the attempt has ended.
    """
    names = _LESSONS.get(record.kind)
    passing = record.kind == RecordKind.SNAPSHOT and record.fields.get("tier") == MEMORY
    if names is None or passing:
        return None
    known: dict[str, Any] = {
        ours: record_fields.integer(record, theirs) for ours, theirs in names.items()
    }
    own_step = record.kind == RecordKind.OWN_STEP
    jit, source = record.fields.get("jit"), size_source(record.fields)
    return ProgressReported(
        **known,
        own_step=own_step,
        at=record.ns / 1e9 if own_step or known.get("first_step") is not None else None,
        jit=jit if isinstance(jit, bool) else None,
        measured=source is SizeSource.MEASURED,
        trial=source is SizeSource.TRIAL,
        deviations=record_fields.sentences(record.fields.get("deviations")),
        model=record_fields.text(record, "model") or None,
    )


_LESSONS: Mapping[str, Mapping[str, str]] = {
    RecordKind.FIT_BEGAN: {"fit": "fit", "batch": "batch"},
    RecordKind.RESTORED: {"restored_step": "step"},
    RecordKind.FIRST_STEP: {"first_step": "step"},
    RecordKind.OWN_STEP: {},
    RecordKind.SNAPSHOT: {"snapshot_step": "step"},
    RecordKind.PEAK: {
        "slice_size": "slice_size",
        "peak_bytes": "peak_bytes",
        "usual_bytes": "usual_bytes",
        "peak_steps": "steps",
        "limit_bytes": "limit_bytes",
    },
    RecordKind.MICROBATCH: {"batch": "batch", "slices": "slices", "slice_size": "size"},
}
"""Which field of a record is which of ``ProgressReported``."""


NO_STEP_SEEN = (
    "no step of training was seen in the first minute of the script: so far nothing is saved,"
    " and after a crash it would begin anew. Seen are the steps of Keras' fit (version 3) and"
    " of its optimizers. A loop of the script's own on TensorFlow saves where it is by"
    " trainers.session (docs/resume.md, Loops of your own)"
)
UNPROMISED = "a bit-identical resume is not promised"


def heard(record: Record) -> list[Event]:
    """The events that ``record`` is for the core: none, or one."""
    lesson = learned(record)
    if lesson is not None:
        return [lesson]
    read = _READERS.get(record.kind)
    event = None if read is None else read(record)
    return [] if event is None else [event]


def _too_large(record: Record) -> NoticeReceived | None:
    """Where no batch fits, that is to be said before a step runs out of memory."""
    found = record_fields.step_needs_of(record)
    said = "" if found is None else too_large(found)
    return NoticeReceived(said) if said else None


def _applied(record: Record) -> Applied:
    asked, found = (record.fields.get(name) for name in ("asked", "found"))
    return Applied(
        record_fields.text(record, "name"), asked is not None and asked == found
    )


def _notice(record: Record) -> NoticeReceived:
    return NoticeReceived(record_fields.text(record, "sentence"))


def _withdrawn(record: Record) -> NoticeReceived | None:
    if record.fields.get("bits") is not False:
        return None
    because = record_fields.text(record, "sentence")
    unpromised = Unpromised(fit=record_fields.integer(record, "fit"), because=because)
    return NoticeReceived(f"{UNPROMISED}: {because}", unpromised)


def _proof(record: Record) -> ProofReported | None:
    try:
        result = Proof(record_fields.text(record, "result"))
    except ValueError:
        return None  # the file may hold anything
    proof = ResumeProof(
        result=result,
        because=record_fields.text(record, "because"),
        steps=record_fields.integer(record, "steps"),
        tensors=record_fields.integer(record, "tensors"),
        seconds=record_fields.seconds(record, "seconds"),
    )
    return ProofReported(proof=proof, ends=record.fields.get("ends") is True)


def _went_on(record: Record) -> WentOn | None:
    number = record_fields.integer(record, "number")
    return None if number is None else WentOn(number)


def _failed(record: Record) -> SnapshotFailed:
    return SnapshotFailed(
        in_memory=record.fields.get("tier") == MEMORY,
        step=record_fields.integer(record, "step"),
        because=record_fields.text(record, "because"),
        no_room=record_fields.integer(record, "errno") in NO_ROOM,
    )


_READERS: Mapping[str, Callable[[Record], Event | None]] = {
    RecordKind.APPLIED: _applied,
    RecordKind.NOTICE: _notice,
    RecordKind.PROMISE: _withdrawn,
    RecordKind.SNAPSHOT_FAILED: _failed,
    RecordKind.PROOF: _proof,
    RecordKind.GOES_ON: _went_on,
    RecordKind.STEP_NEEDS: _too_large,
    RecordKind.NO_STEP_SEEN: lambda _: NoticeReceived(NO_STEP_SEEN),
}
"""What a record of each kind is to the core; the others are nothing."""


MOST_OF_RECOVERY = 1000
"""Events between a failed step and the next, at most: who tells more is none of ours."""


@dataclass
class RecoveryNews:
    """What an attempt told of the newest failed step that it went on after, up to its next
    step: for a supervisor that comes when the attempt has ended."""

    events: list[Event] = field(default_factory=list[Event])
    _over: bool = True

    def hear(self, event: Event) -> None:
        """The next event that the attempt told."""
        if isinstance(event, WentOn):
            self.events, self._over = [], False
        if self._over:
            return
        self.events.append(event)
        stepped = isinstance(event, ProgressReported) and event.first_step is not None
        self._over = stepped or len(self.events) >= MOST_OF_RECOVERY
