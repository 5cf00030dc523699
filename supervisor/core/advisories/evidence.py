"""The evidence that advisories are drawn from. None, and empty: not measured."""

from dataclasses import dataclass

from supervisor.wire.step_evidence import StepEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMemory:
    """Device memory of whole steps of one batch, worked through at once."""

    batch: int
    """Samples."""
    peak_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTimes:
    """The GPUs of an attempt, as all looks at them up to now show them together."""

    looks: int = 0
    """At each GPU while steps were made."""
    busy: float | None = None
    """Mean part of the time in which a kernel ran, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one attempt."""

    steps: StepEvidence | None = None
    memory: BatchMemory | None = None
    gpus: GpuTimes = GpuTimes()
