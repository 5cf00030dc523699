"""The records of memory by the phases of an epoch: its steps, the validation, the callbacks.

Written by the training process where they tell something new (``RecordKind.PHASE_PEAK``,
``RecordKind.EPOCH_MEMORY``).
"""

import enum
from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


class PeakPhase(enum.StrEnum):
    """A part of each epoch that may need memory of its own."""

    STEPS = "steps"
    """From the first to the last, where some samples are longer than others."""
    VALIDATION = "validation"
    CALLBACKS = "callbacks"
    """Those of the end of an epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePeak(JsonRecord):
    """One phase that is over, in bytes."""

    phase: str
    """A ``PeakPhase``."""
    between_bytes: int
    """The most that was in use between two steps of this epoch, or as the phase began."""
    before_bytes: int
    """The allocator's peak as the phase began."""
    peak_bytes: int
    """... and as it ended: the phase's own, if it is higher; else its own is not known."""
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMemory(JsonRecord):
    """An epoch that has begun."""

    step: int
    """Steps done, the first of the epoch among them."""
    in_use_bytes: int
    """The less of what was in use before that step and after it."""
    validation_epochs: int | None
    """The next validation is at the end of this epoch (0), or of a later one; None: there
    is none any more."""
