"""What the event file of an attempt says so far: its records, folded into one view."""

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
from supervisor.host.telemetry import record_fields
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.legacy_reasons import refusal_reason, size_source
from supervisor.wire.reasons import SizeSource
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from supervisor.wire.records.step_evidence import StepEvidence
from supervisor.wire.records.step_needs import StepNeeds
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """What the event file of an attempt says so far."""

    launched: bool = False
    """Whether the process has its files, and comes to the script."""
    launched_ns: int | None = None
    """When it said so first: one that stood by was started long before."""
    in_fit: bool = False
    fit: int | None = None
    """Number of the call of ``fit`` that began last, from 0."""
    sliceable: bool | None = None
    """Whether its backend of Keras can work through a batch in slices; None: not told."""
    in_own_loop: bool = False
    """Whether steps were made outside of ``fit``, and no ``fit`` began since."""
    unseen: bool = False
    """The script runs for long, and no step of it is seen."""
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


def _plan(record: Record) -> SnapshotPlan:
    return SnapshotPlan(
        memory_seconds=record_fields.seconds(record, "memory_seconds"),
        durable_seconds=record_fields.seconds(record, "durable_seconds"),
        because=record_fields.text(record, "because"),
    )


def _refusal(record: Record) -> Refusal:
    return Refusal(
        reason=refusal_reason(record.fields),
        sentence=record_fields.text(record, "sentence"),
    )


def _evidence(record: Record) -> dict[str, Any]:
    """Nothing, where it is not what training writes: the file may hold anything."""
    found = StepEvidence.from_json(record.fields)
    if found is None:
        return {}
    figures = [one for one in asdict(found).values() if isinstance(one, (int, float))]
    if not all(0 <= one <= record_fields.MOST for one in figures):
        return {}
    shapes = tuple(str(one)[:100] for one in found.wide_inputs[:20])
    file = found.written_file[:500]
    return {"evidence": replace(found, wide_inputs=shapes, written_file=file)}


def _step_needs(record: Record) -> dict[str, Any]:
    found = record_fields.step_needs_of(record)
    return {} if found is None else {"needs": found}


def _non_finite(record: Record) -> NonFinite:
    return NonFinite(
        last_finite_step=record_fields.integer(record, "last_finite_step"),
        step=record_fields.integer(record, "step") or 0,
        because=record_fields.text(record, "because"),
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
        if record.kind == RecordKind.LAUNCHED and view.launched_ns is None:
            changes.setdefault("launched_ns", record.ns)
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
        size_bytes=record_fields.integer(record, "bytes"),
        seconds=record_fields.seconds(record, "seconds"),
        stall_seconds=record_fields.seconds(record, "stall_seconds"),
        failed=record.kind == RecordKind.SNAPSHOT_FAILED,
        count=min(
            max(record_fields.integer(record, "snapshots") or 1, 1), MOST_AT_ONCE
        ),
        because=record_fields.text(record, "because"),
    )


def _fit_began(record: Record) -> dict[str, Any]:
    told = record.fields.get("sliceable")
    sliceable = told if isinstance(told, bool) else None
    known: dict[str, Any] = {
        "in_fit": True,
        "in_own_loop": False,
        "unseen": False,
    }
    known |= {"fit": record_fields.integer(record, "fit"), "sliceable": sliceable}
    known |= {"slices": None, "slice_size": None, "near_limit": None}
    return {**known, "phase_needs": PhaseNeeds()}


def _sliced(record: Record) -> dict[str, Any]:
    size, batch = (
        record_fields.integer(record, "size"),
        record_fields.integer(record, "batch"),
    )
    slices = record_fields.integer(record, "slices")
    known: dict[str, Any] = {
        "slices": slices,
        "slice_size": None if slices is None else size,
    }
    near = record_fields.near_limit_of(record.fields.get("near_limit"))
    if near is not None:
        known["near_limit"] = near
    tried = size_source(record.fields) is SizeSource.TRIAL
    if not tried or size is None or batch is None:
        return {**known, "slice_trial": None}
    return {**known, "slice_trial": SliceTrial(size=size, batch=batch)}


def _phase_peak(known: PhaseNeeds, record: Record) -> PhaseNeeds:
    """``known`` as it is, where the record is not as training writes it."""
    found = PhasePeak.from_json(record.fields)
    if found is None or found.phase not in set(PeakPhase):
        return known
    low, high = found.between_bytes, found.peak_bytes
    figures = (low, high, found.before_bytes, found.limit_bytes)
    return (
        known.and_then(found)
        if all(0 <= one <= record_fields.MOST for one in figures)
        else known
    )


def _epoch_memory(known: PhaseNeeds, record: Record) -> PhaseNeeds:
    """As above."""
    found = EpochMemory.from_json(record.fields)
    if found is None:
        return known
    figures = (found.step, found.in_use_bytes, found.validation_epochs or 0)
    if not all(0 <= one <= record_fields.MOST for one in figures):
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
    RecordKind.OWN_STEP: lambda _: {"in_own_loop": True, "unseen": False},
    RecordKind.NO_STEP_SEEN: lambda _: {"unseen": True},
    RecordKind.RESTORED: lambda r: {"restored_step": record_fields.integer(r, "step")},
    RecordKind.FIRST_STEP: lambda r: {"first_step": record_fields.integer(r, "step")},
    RecordKind.PROMISE: _promised,
    RecordKind.EPOCH_ENDED: _epoch_ended,
    RecordKind.FINISHED: lambda r: {
        "exit_code": record_fields.integer(r, "exit_code"),
        "exit_message": record_fields.text(r, "message"),
    },
    RecordKind.DRAINED: lambda _: {"drained": True},
    RecordKind.REFUSED: lambda r: {"refused": _refusal(r)},
    RecordKind.NON_FINITE: lambda r: {"non_finite": _non_finite(r)},
    RecordKind.SNAPSHOT_PLAN: lambda r: {"snapshot_plan": _plan(r)},
    RecordKind.EVIDENCE: _evidence,
    RecordKind.STEP_NEEDS: _step_needs,
    RecordKind.STEP_FAILED: lambda r: {"asks": record_fields.integer(r, "number") or 0},
    RecordKind.GOES_ON: lambda r: {
        "asks": 0,
        "log_from": record_fields.integer(r, "log_bytes") or 0,
        "non_finite": None,
        "first_step": None,
        "slice_trial": None,
        "near_limit": None,
        "phase_needs": PhaseNeeds(),
    },
}
"""What a record of each kind changes in the view; the others change nothing."""
