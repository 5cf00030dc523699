"""Rules about slices of the batch, where a step comes near the memory limit."""

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.core.text.units import format_size
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.slices import count

MORE_ROOM = (
    "The update is the same, and takes a little longer. A larger memory limit, a smaller "
    "model, an optimizer that keeps less (SGD, Lion, Adafactor) or mixed precision makes "
    "room; compute.slice of the spec sets how many samples a slice begins with, and "
    "trainwarden advise tries it beforehand."
)


def near_limit(evidence: RunEvidence) -> Advisory | None:
    """Slices are smaller than they began, or would be if it helped."""
    near = evidence.near_limit
    if near is None:
        return None
    slices = count(batch=near.batch, size=near.size)
    figures: dict[str, float] = {
        "first_slices": count(batch=near.batch, size=near.first_size),
        "slices": slices,
        "peak_bytes": near.peak_bytes,
        "limit_bytes": near.limit_bytes,
    }
    if near.unsliced_bytes is not None:
        figures["unsliced_bytes"] = near.unsliced_bytes
    return Advisory(
        kind=AdvisoryKind.NEAR_LIMIT,
        sentence=f"{_changed(near, slices)}{_unsliced(near)}",
        advice=MORE_ROOM,
        figures=figures,
    )


def _changed(near: NearLimit, slices: int) -> str:
    before = count(batch=near.batch, size=near.first_size)
    peak, limit = format_size(near.peak_bytes), format_size(near.limit_bytes)
    return (
        f"a batch is worked through in {slices} slices, not in {before} as it began: a step"
        f" needed {peak} of the limit of {limit}, and another might have run out of memory"
    )


def _unsliced(near: NearLimit) -> str:
    """Why no more are made."""
    if near.unsliced_bytes is None:
        return ""
    return (
        f"; more are not made, as steps filled about {format_size(near.unsliced_bytes)}"
        " whatever their number (weights, the state of the optimizer, the sum of gradients,"
        " the whole batch, data and buffers of fixed size do not shrink with it)"
    )
