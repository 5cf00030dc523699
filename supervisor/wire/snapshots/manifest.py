"""The manifest of a snapshot: ``manifest.json`` beside its ``state.safetensors``.

A snapshot is a directory ``STEP-SERIAL`` (zero-padded, so that names sort by age). It
is whole once it has that name: it is written under a temporary one, fsynced, renamed.
That is so in both tiers: in memory (a tmpfs, which survives the process) and on disk.
Its tensors lie in the safetensors layout; everything that is no tensor is JSON here.
There is no pickle anywhere.
"""

from dataclasses import dataclass
from typing import Any

from supervisor.wire.json_record import JsonRecord

FORMAT = 1
"""Snapshots of another format version are refused, not guessed at."""

MEMORY = "memory"
DURABLE = "durable"
"""The tiers, by the names that events and commands use."""

MANIFEST = "manifest.json"
TENSORS = "state.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(JsonRecord):
    """The part of the manifest that the supervisor reads too."""

    format: int
    job: str
    attempt: int
    serial: int
    """Counts the snapshots of a run."""
    step: int
    """Steps done since the run began."""
    fit: int
    """Which call of ``fit``, from 0."""
    fit_done: bool
    """True: that call had returned; this is its end state."""
    epoch: int
    step_in_epoch: int
    """Steps done in ``epoch``: where its data continue."""
    batch: int | None
    samples: int
    slices: int
    tensors_bytes: int
    """Size of the tensor file."""
    tensors_hash: str
    """``sha256:HEX`` of the whole tensor file (``wire.snapshots.seal``)."""
    wall_time: float
    """Seconds since 1970, for people only."""
    state: dict[str, Any]
    """The training side's own: RNG, callbacks, History, logs, fingerprints."""
