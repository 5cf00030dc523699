"""How to slice a batch so that a step fits into memory (interface; rules to come)."""

from collections.abc import Sequence
from dataclasses import dataclass

# Sketch by the lead, for "micro" to fill in: keep the names and the keyword-only
# signatures, they are used by core/policy.py, effects.py, lifecycle.py, supervise.py.


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the next attempt slices its batch (stored as JSON in the ledger)."""

    slice_size: int | None
    slices: int
    calibrate: bool
    ceiling: int | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one attempt showed."""

    slice_size: int
    peak_bytes: int | None
    failed: bool
    """It ran out of memory at this slice."""
    limit_bytes: int | None
    jit: bool | None


def next_plan(observations: Sequence[Observation], *, batch: int | None) -> Plan | None:
    """The plan after an OOM; None: nothing smaller is left, or the batch is unknown."""
    failed = [seen.slice_size for seen in observations if seen.failed]
    if batch is None or not failed or min(failed) <= 1:
        return None
    size = max(min(failed) // 2, 1)
    return Plan(
        slice_size=size,
        slices=-(-batch // size),
        calibrate=True,
        ceiling=min(failed),
        because=f"slices of {size} samples need less memory than {min(failed)}",
    )
