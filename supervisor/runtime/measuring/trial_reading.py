"""What the records of one trial say: whether it was made as it was asked for, and what of it
was measured."""

from collections.abc import Sequence
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import FIGURES, Diagnosis
from supervisor.core.memory.alternatives import AlternativeAxis, Combination, slices_in
from supervisor.core.memory.bfc_map import MemoryMap, handed_out_whole
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult, asked
from supervisor.core.text.units import format_size
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep

NO_FIT = (
    "the script came to its end without a call of model.fit: there is nothing to try"
)
NOT_SLICED = "the batch is not sliced"
GOES_ON = (
    "the trial went on in {} slices; a run finds its own number, and may need more"
)
HANDED_OUT_WHOLE = (
    " (the allocator does not cut a free block that is not twice as large): with other blocks"
    " beside it, in a run, it may fit"
)
SMALLER_BATCH = "the first batch has too few samples for that: it has {} of such slices"
NO_ROOM = frozenset(
    {
        Cause.DEVICE_OOM,
        Cause.DEVICE_OOM_FRAGMENTATION,
        Cause.CUDNN_ALLOC,
        Cause.HOST_OOM,
    }
)


Outcome = tuple[TrialOutcome, str]
"""And why, in half a sentence; empty: it was measured."""


def told_outcome(heard: Sequence[Record], combination: Combination) -> Outcome | None:
    """What the training process says itself of a trial; None: it ended without a word."""
    told = {record.kind: record.fields for record in heard}
    refused = told.get(RecordKind.REFUSED)
    if refused is not None:
        reason = RefusalReason.read(refused.get("reason"))
        no_room = reason is RefusalReason.MEMORY
        outcome = TrialOutcome.NO_ROOM if no_room else TrialOutcome.NOT_APPLIED
        return outcome, str(refused.get("sentence", ""))
    if RecordKind.TRIAL_END in told:
        return _applied(told, combination)
    if told.get(RecordKind.FINISHED, {}).get("exit_code") == 0:
        return TrialOutcome.FAILED, NO_FIT
    return None


def diagnosed_outcome(found: Diagnosis, memory_map: MemoryMap | None) -> Outcome:
    """What its end was, where it said nothing. ``memory_map``: the allocator's, when memory
    ran out."""
    if found.cause in NO_ROOM:
        return TrialOutcome.NO_ROOM, _shortage(found, memory_map)
    reasons = found.because
    return TrialOutcome.FAILED, reasons[0].text if reasons else str(found.cause)


def _shortage(found: Diagnosis, memory_map: MemoryMap | None) -> str:
    """What was asked for, and what there was of it; empty: it is not known."""
    figures = (one.text for one in found.because if one.signature == FIGURES)
    said = next(figures, "").removesuffix(".")
    asked = None if found.memory is None else found.memory.requested_bytes
    if not said or asked is None or memory_map is None:
        return said
    whole = handed_out_whole(memory_map, asked_bytes=asked)
    if whole is None:
        return said
    held, needed = format_size(whole.size), format_size(whole.requested_size)
    return f"{said}, {held} of it for a block of {needed}{HANDED_OUT_WHOLE}"


def _applied(told: dict[str, dict[str, Any]], combination: Combination) -> Outcome:
    """Whether what was measured is what was asked for."""
    fit = TrialFit.from_json(told.get(RecordKind.TRIAL_FIT, {}))
    precision = asked(combination, AlternativeAxis.PRECISION)
    if fit is not None and precision not in {None, fit.precision}:
        return (
            TrialOutcome.NOT_APPLIED,
            f"the script sets its own dtype policy, {fit.precision}",
        )
    if (
        fit is not None
        and asked(combination, AlternativeAxis.RECOMPUTATION)
        and not fit.recomputed
    ):
        return TrialOutcome.NOT_APPLIED, "no layer of the model can be computed again"
    return _as_sliced(told, slices_in(combination))


def _as_sliced(told: dict[str, dict[str, Any]], slices: int) -> Outcome:
    """Whether it stayed at so many ``slices``, as a run would; 1: as the batch is."""
    made = told.get(RecordKind.MICROBATCH, {}).get("slices")
    if slices in {1, made}:
        return TrialOutcome.MEASURED, ""
    if made is None:
        notice = told.get(RecordKind.NOTICE, {})
        return TrialOutcome.NOT_APPLIED, str(notice.get("sentence", NOT_SLICED))
    if made > slices:  # a step too near the limit took a smaller one
        return TrialOutcome.TOO_NEAR, GOES_ON.format(made)
    return TrialOutcome.NOT_APPLIED, SMALLER_BATCH.format(made)


def result_of(
    heard: Sequence[Record],
    combination: Combination,
    outcome: Outcome,
    *,
    limited: bool,
) -> TrialResult:
    """What was measured until then."""
    told = {record.kind: record.fields for record in heard}
    steps = (
        TrialStep.from_json(record.fields)
        for record in heard
        if record.kind == RecordKind.TRIAL_STEP
    )
    sliced = told.get(RecordKind.MICROBATCH, {})
    deviations, made = sliced.get("deviations", ()), sliced.get("slices")
    return TrialResult(
        combination=combination,
        outcome=outcome[0],
        because=outcome[1],
        fit=TrialFit.from_json(told.get(RecordKind.TRIAL_FIT, {})),
        steps=tuple(one for one in steps if one is not None),
        end=TrialEnd.from_json(told.get(RecordKind.TRIAL_END, {})),
        deviations=tuple(map(str, deviations)),
        slices_made=made if type(made) is int else None,
        limited=limited,
    )
