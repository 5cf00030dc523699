"""A rule about a validation, the end of an epoch or a step that will not fit any more."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.next_peak import MemoryAhead, PeakAhead
from supervisor.core.advisories.next_peak import next_peak as found_ahead
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.core.text.units import format_size
from supervisor.wire.records.phase_peaks import PeakPhase

LET_GO = (
    "Let go of what is kept from epoch to epoch (trainwarden memory JOB names who holds "
    "most); give fit a smaller validation_batch_size where it is the validation that does "
    "not fit, a smaller batch, or the run a larger memory limit. Slices of the batch help "
    "steps alone. Where it runs out of memory, the steps since the newest snapshot are lost."
)

_NEEDED = {
    PeakPhase.STEPS: "the largest steps of the past epochs needed at least",
    PeakPhase.VALIDATION: "the last validations needed at least",
    PeakPhase.CALLBACKS: "the callbacks at the end of the last epochs needed at least",
}
_NEXT = {
    PeakPhase.STEPS: "the next of its kind",
    PeakPhase.VALIDATION: "the next one",
    PeakPhase.CALLBACKS: "the next time",
}


def next_peak(evidence: RunEvidence) -> Advisory | None:
    """A phase that comes again needs more than is left."""
    ahead = evidence.ahead
    peak = None if ahead is None else found_ahead(ahead)
    if ahead is None or peak is None:
        return None
    figures: dict[str, float] = {
        "need_bytes": peak.need_bytes,
        "in_use_bytes": ahead.in_use_bytes,
        "left_bytes": ahead.left_bytes,
        "limit_bytes": ahead.limit_bytes,
    }
    if peak.steps is not None:
        figures["steps"] = peak.steps
    return Advisory(
        kind=AdvisoryKind.NEXT_PEAK,
        sentence=_sentence(ahead, peak),
        advice=LET_GO,
        figures=figures,
    )


def _sentence(ahead: MemoryAhead, peak: PeakAhead) -> str:
    need, left = format_size(peak.need_bytes), format_size(ahead.left_bytes)
    return (
        f"{_NEEDED[peak.phase]} {need} beyond what lies between steps, and {left} of"
        f" {format_size(ahead.limit_bytes)} are left now: {_NEXT[peak.phase]}{_when(peak)}"
        " will probably not fit"
    )


def _when(peak: PeakAhead) -> str:
    """When it comes, as far as it is known."""
    if peak.phase is PeakPhase.STEPS:
        return ""
    steps = "" if peak.steps is None else f" (in about {max(peak.steps, 1)} steps)"
    if peak.epochs > 1:
        return f", {peak.epochs} epochs after this one{steps},"
    which = "the next" if peak.epochs else "this"
    return f", at the end of {which} epoch{steps},"
