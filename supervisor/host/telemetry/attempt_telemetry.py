"""Telemetry of a training process: its events folded into one view, beside its page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from supervisor.core.advisories.next_peak import PhaseNeeds
from supervisor.core.diagnosis.evidence import NonFinite, Refusal
from supervisor.core.jobs.accounting.snapshot_stats import (
    NO_SNAPSHOTS,
    SnapshotStats,
    Taken,
)
from supervisor.core.jobs.accounting.snapshot_stats import fold as fold_tiers
from supervisor.core.jobs.job_status import SliceTrial, SnapshotPlan
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
from supervisor.core.remediation.history import Unpromised, weakest
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.wire.event_file import (
    MOST_NS,
    NO_ROOM,
    EventReader,
    Record,
    RecordKind,
)
from supervisor.wire.legacy_reasons import refusal_reason, size_source
from supervisor.wire.page import Page, PageReader
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.reasons import SizeSource
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from supervisor.wire.records.step_evidence import StepEvidence
from supervisor.wire.records.step_needs import StepNeeds
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from supervisor.wire.snapshots.proof import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """What the event file of an attempt says so far."""

    launched: bool = False
    """Whether the process has its files, and comes to the script."""
    in_fit: bool = False
    fit: int | None = None
    """Number of the call of ``fit`` that began last, from 0."""
    sliceable: bool | None = None
    """Whether its backend of Keras can work through a batch in slices; None: not told."""
    in_own_loop: bool = False
    """Whether steps were made outside of ``fit``, and no ``fit`` began since."""
    restored_step: int | None = None
    first_step: int | None = None
    promised: bool = False
    """Whether it promised bits for a call of ``fit``, or a loop."""
    exit_code: int | None = None
    """What the script passed to ``sys.exit``, or 0 at its end; None: not there yet."""
    exit_message: str = ""
    """... in the place of a number."""
    drained: bool = False
    refused: Refusal | None = None
    snapshot_plan: SnapshotPlan | None = None
    planned_ns: int | None = None
    """When there was a plan first: from then on snapshots are due."""
    non_finite: NonFinite | None = None
    tiers: SnapshotStats = NO_SNAPSHOTS
    evidence: StepEvidence | None = None
    """How steps spend their time, as the newest call of ``fit`` told last."""
    slice_trial: SliceTrial | None = None
    """The size of a slice that is being tried; None: none is."""
    slices: int | None = None
    """In how many a batch is worked through, as this call of ``fit`` told last, before it
    does so: the page has it later. None: it has told none."""
    slice_size: int | None = None
    near_limit: NearLimit | None = None
    """A step in slices that came near the memory limit, in this call of ``fit``."""
    phase_needs: PhaseNeeds = field(default_factory=PhaseNeeds)
    """What the phases of an epoch need, as far as this call of ``fit`` has shown."""
    needs: StepNeeds | None = None
    """What a step of the first ``fit`` needs, as was told last."""
    validated: bool = False
    """An epoch came to its end, with its validation."""
    asks: int = 0
    """Number of the failed step at which it stands still and asks; 0: it does not."""
    log_from: int = 0
    """What the log says before so many bytes, the attempt has outlived."""


def _integer(record: Record, name: str) -> int | None:
    value = record.fields.get(name)
    return value if type(value) is int and abs(value) < MOST_NS else None


def _text(record: Record, name: str) -> str:
    return str(record.fields.get(name, ""))[:2000]


def _seconds(record: Record, name: str) -> float | None:
    value = record.fields.get(name)
    whole = _integer(record, name)
    return value if type(value) is float else None if whole is None else float(whole)


def _plan(record: Record) -> SnapshotPlan:
    return SnapshotPlan(
        memory_seconds=_seconds(record, "memory_seconds"),
        durable_seconds=_seconds(record, "durable_seconds"),
        because=_text(record, "because"),
    )


def _refusal(record: Record) -> Refusal:
    return Refusal(
        reason=refusal_reason(record.fields), sentence=_text(record, "sentence")
    )


MOST = 1e15
"""A figure of steps above is none of ours."""


def _evidence(record: Record) -> dict[str, Any]:
    """Nothing, where it is not what training writes: the file may hold anything."""
    found = StepEvidence.from_json(record.fields)
    if found is None:
        return {}
    figures = [one for one in asdict(found).values() if isinstance(one, (int, float))]
    if not all(0 <= one <= MOST for one in figures):
        return {}
    shapes = tuple(str(one)[:100] for one in found.wide_inputs[:20])
    file = found.written_file[:500]
    return {"evidence": replace(found, wide_inputs=shapes, written_file=file)}


def _needs(record: Record) -> StepNeeds | None:
    """None, where it is not what training writes."""
    found = StepNeeds.from_json(record.fields)
    if found is None:
        return None
    figures = [one for one in asdict(found).values() if isinstance(one, int)]
    if found.slices < 1 or not all(0 <= one <= MOST for one in figures):
        return None
    return replace(found, optimizer=found.optimizer[:100], backend=found.backend[:100])


def _step_needs(record: Record) -> dict[str, Any]:
    found = _needs(record)
    return {} if found is None else {"needs": found}


def _too_large(record: Record) -> NoticeReceived | None:
    """Where no batch fits, that is to be said before a step runs out of memory."""
    found = _needs(record)
    said = "" if found is None else too_large(found)
    return NoticeReceived(said) if said else None


def _non_finite(record: Record) -> NonFinite:
    return NonFinite(
        last_finite_step=_integer(record, "last_finite_step"),
        step=_integer(record, "step") or 0,
        because=_text(record, "because"),
    )


def fold(view: AttemptView, records: Sequence[Record]) -> AttemptView:
    """``view`` with more records; those of snapshots, which are most, all at once."""
    taken: list[Taken] = []
    changes: dict[str, Any] = {}
    for record in records:
        if record.kind in _TAKEN:
            taken.append(_taken(record))
        elif record.kind in _PHASES:
            known = changes.get("phase_needs", view.phase_needs)
            changes["phase_needs"] = _PHASES[record.kind](known, record)
        elif (change := _FOLDS.get(record.kind)) is not None:
            changes |= change(record)
        if record.kind == RecordKind.SNAPSHOT_PLAN and view.planned_ns is None:
            changes.setdefault("planned_ns", record.ns)
    if taken:
        changes["tiers"] = fold_tiers(view.tiers, taken)
    return replace(view, **changes) if changes else view


_TAKEN = frozenset({RecordKind.SNAPSHOT, RecordKind.SNAPSHOT_FAILED})
MOST_AT_ONCE = 1_000_000
"""Snapshots one record may stand for: who says more was not asked by us."""


def _taken(record: Record) -> Taken:
    return Taken(
        tier=MEMORY if record.fields.get("tier") == MEMORY else DURABLE,
        ns=record.ns,
        size_bytes=_integer(record, "bytes"),
        seconds=_seconds(record, "seconds"),
        stall_seconds=_seconds(record, "stall_seconds"),
        failed=record.kind == RecordKind.SNAPSHOT_FAILED,
        count=min(max(_integer(record, "snapshots") or 1, 1), MOST_AT_ONCE),
        because=_text(record, "because"),
    )


def _fit_began(record: Record) -> dict[str, Any]:
    told = record.fields.get("sliceable")
    sliceable = told if isinstance(told, bool) else None
    known: dict[str, Any] = {"in_fit": True, "in_own_loop": False}
    known |= {"fit": _integer(record, "fit"), "sliceable": sliceable}
    known |= {"slices": None, "slice_size": None, "near_limit": None}
    return {**known, "phase_needs": PhaseNeeds()}


def _sliced(record: Record) -> dict[str, Any]:
    size, batch = _integer(record, "size"), _integer(record, "batch")
    slices = _integer(record, "slices")
    known: dict[str, Any] = {
        "slices": slices,
        "slice_size": None if slices is None else size,
    }
    near = _near_limit(record.fields.get("near_limit"))
    if near is not None:
        known["near_limit"] = near
    tried = size_source(record.fields) is SizeSource.TRIAL
    if not tried or size is None or batch is None:
        return {**known, "slice_trial": None}
    return {**known, "slice_trial": SliceTrial(size=size, batch=batch)}


def _near_limit(value: object) -> NearLimit | None:
    """None: there is none, or not as training writes it: the file may hold anything."""
    if not isinstance(value, dict):
        return None
    found = NearLimit.from_json(cast("dict[str, Any]", value))
    if found is None or not 1 <= found.size <= found.first_size <= found.batch:
        return None
    figures = (found.batch, found.peak_bytes, found.limit_bytes)
    return found if all(0 < one <= MOST for one in figures) else None


def _phase_peak(known: PhaseNeeds, record: Record) -> PhaseNeeds:
    """``known`` as it is, where the record is not as training writes it."""
    found = PhasePeak.from_json(record.fields)
    if found is None or found.phase not in set(PeakPhase):
        return known
    low, high = found.between_bytes, found.peak_bytes
    figures = (low, high, found.before_bytes, found.limit_bytes)
    return known.and_then(found) if all(0 <= one <= MOST for one in figures) else known


def _epoch_memory(known: PhaseNeeds, record: Record) -> PhaseNeeds:
    """As above."""
    found = EpochMemory.from_json(record.fields)
    if found is None:
        return known
    figures = (found.step, found.in_use_bytes, found.validation_epochs or 0)
    if not all(0 <= one <= MOST for one in figures):
        return known
    return replace(known, epoch=found)


_PHASES: Mapping[str, Callable[[PhaseNeeds, Record], PhaseNeeds]] = {
    RecordKind.PHASE_PEAK: _phase_peak,
    RecordKind.EPOCH_MEMORY: _epoch_memory,
}
"""What a record of memory changes in what is known of the phases of an epoch."""


def _promised(record: Record) -> dict[str, Any]:
    return {"promised": True} if record.fields.get("bits") is True else {}


def _epoch_ended(record: Record) -> dict[str, Any]:
    logs = record.fields.get("logs")
    names = cast("dict[str, object]", logs) if isinstance(logs, dict) else {}
    return {"validated": True} if any(n.startswith("val_") for n in names) else {}


_FOLDS: Mapping[str, Callable[[Record], dict[str, Any]]] = {
    RecordKind.LAUNCHED: lambda _: {"launched": True},
    RecordKind.FIT_BEGAN: _fit_began,
    RecordKind.FIT_ENDED: lambda _: {
        "in_fit": False,
        "slice_trial": None,
        "phase_needs": PhaseNeeds(),
    },
    # An attempt that ends by it ended in a ``fit``: that stays.
    RecordKind.FIT_FAILED: lambda _: {
        "slice_trial": None,
        "phase_needs": PhaseNeeds(),
    },
    RecordKind.MICROBATCH: _sliced,
    RecordKind.OWN_STEP: lambda _: {"in_own_loop": True},
    RecordKind.RESTORED: lambda r: {"restored_step": _integer(r, "step")},
    RecordKind.FIRST_STEP: lambda r: {"first_step": _integer(r, "step")},
    RecordKind.PROMISE: _promised,
    RecordKind.EPOCH_ENDED: _epoch_ended,
    RecordKind.FINISHED: lambda r: {
        "exit_code": _integer(r, "exit_code"),
        "exit_message": _text(r, "message"),
    },
    RecordKind.DRAINED: lambda _: {"drained": True},
    RecordKind.REFUSED: lambda r: {"refused": _refusal(r)},
    RecordKind.NON_FINITE: lambda r: {"non_finite": _non_finite(r)},
    RecordKind.SNAPSHOT_PLAN: lambda r: {"snapshot_plan": _plan(r)},
    RecordKind.EVIDENCE: _evidence,
    RecordKind.STEP_NEEDS: _step_needs,
    RecordKind.STEP_FAILED: lambda r: {"asks": _integer(r, "number") or 0},
    RecordKind.GOES_ON: lambda r: {
        "asks": 0,
        "log_from": _integer(r, "log_bytes") or 0,
        "non_finite": None,
        "first_step": None,
        "slice_trial": None,
        "near_limit": None,
        "phase_needs": PhaseNeeds(),
    },
}
"""What a record of each kind changes in the view; the others change nothing."""


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
        ours: _integer(record, theirs) for ours, theirs in names.items()
    }
    jit, source = record.fields.get("jit"), size_source(record.fields)
    return ProgressReported(
        **known,
        at=record.ns / 1e9 if known.get("first_step") is not None else None,
        jit=jit if isinstance(jit, bool) else None,
        measured=source is SizeSource.MEASURED,
        trial=source is SizeSource.TRIAL,
        deviations=_sentences(record.fields.get("deviations")),
        model=_text(record, "model") or None,
    )


_LESSONS: Mapping[str, Mapping[str, str]] = {
    RecordKind.FIT_BEGAN: {"fit": "fit", "batch": "batch"},
    RecordKind.RESTORED: {"restored_step": "step"},
    RecordKind.FIRST_STEP: {"first_step": "step"},
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


UNPROMISED = "a bit-identical resume is not promised"


def heard(record: Record) -> list[Event]:
    """The events that ``record`` is for the core: none, or one."""
    lesson = learned(record)
    if lesson is not None:
        return [lesson]
    read = _READERS.get(record.kind)
    event = None if read is None else read(record)
    return [] if event is None else [event]


def _applied(record: Record) -> Applied:
    asked, found = (record.fields.get(name) for name in ("asked", "found"))
    return Applied(_text(record, "name"), asked is not None and asked == found)


def _notice(record: Record) -> NoticeReceived:
    return NoticeReceived(_text(record, "sentence"))


def _withdrawn(record: Record) -> NoticeReceived | None:
    if record.fields.get("bits") is not False:
        return None
    because = _text(record, "sentence")
    unpromised = Unpromised(fit=_integer(record, "fit"), because=because)
    return NoticeReceived(f"{UNPROMISED}: {because}", unpromised)


def _proof(record: Record) -> ProofReported | None:
    try:
        result = Proof(_text(record, "result"))
    except ValueError:
        return None  # the file may hold anything
    proof = ResumeProof(
        result=result,
        because=_text(record, "because"),
        steps=_integer(record, "steps"),
        tensors=_integer(record, "tensors"),
        seconds=_seconds(record, "seconds"),
    )
    return ProofReported(proof=proof, ends=record.fields.get("ends") is True)


def _went_on(record: Record) -> WentOn | None:
    number = _integer(record, "number")
    return None if number is None else WentOn(number)


def _failed(record: Record) -> SnapshotFailed:
    return SnapshotFailed(
        in_memory=record.fields.get("tier") == MEMORY,
        step=_integer(record, "step"),
        because=_text(record, "because"),
        no_room=_integer(record, "errno") in NO_ROOM,
    )


_READERS: Mapping[str, Callable[[Record], Event | None]] = {
    RecordKind.APPLIED: _applied,
    RecordKind.NOTICE: _notice,
    RecordKind.PROMISE: _withdrawn,
    RecordKind.SNAPSHOT_FAILED: _failed,
    RecordKind.PROOF: _proof,
    RecordKind.GOES_ON: _went_on,
    RecordKind.STEP_NEEDS: _too_large,
}
"""What a record of each kind is to the core; the others are nothing."""


def _sentences(value: Any) -> tuple[str, ...]:
    found = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(str(item)[:500] for item in found[:20])


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


END_POLLS = 64
"""Made at most of what an attempt left unread, 256 MiB: a record a second for two weeks.
Of more than that the last part alone is read: its owner may still append to it."""


class Telemetry:
    """The page and the event file of one attempt."""

    def __init__(self, paths: AttemptPaths) -> None:
        self._page = PageReader(paths.page)
        self._reader = EventReader(paths.events)
        self._polls_left = END_POLLS
        self.view = AttemptView()
        self.recovery = RecoveryNews()
        self.unpromised: Unpromised | None = None
        """The first reason that it told why bits are not promised."""

    def poll(self) -> list[Event]:
        """Take in new records; what the core should hear of them."""
        records = self._reader.poll()
        self.view = fold(self.view, records)
        events = [event for record in records for event in heard(record)]
        for event in events:
            self.recovery.hear(event)
            if isinstance(event, NoticeReceived):
                self.unpromised = weakest((self.unpromised, event.unpromised))
        return events

    @property
    def behind(self) -> bool:
        """Whether the event file had more than the last ``poll`` read: ``view`` is of
        the past."""
        return self._reader.behind

    def read_rest(self) -> None:
        """Read on to the end, of an attempt that has ended: what nobody followed may be
        the records of weeks, and the last of them tell how it ended."""
        self.poll()
        while not self.is_read():
            self.poll()
        if self.behind:
            self.poll()

    def is_read(self) -> bool:
        """Whether nothing is to be waited for any more of what an attempt told that has
        ended, asked after each ``poll``: one more has the last, at most."""
        if not self.behind:
            return True
        self._polls_left -= 1
        if self._polls_left >= 0:
            return False
        self._reader.pass_over()
        return True

    def page(self) -> Page | None:
        """Where the attempt is; None: it has not said yet."""
        return self._page.read()

    def close(self) -> None:
        """Give both files back; whoever asks again opens them."""
        self._page.close()
        self._reader.close()
