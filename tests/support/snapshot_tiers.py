"""Both tiers of a run's snapshots, without a run."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from supervisor.wire.snapshots.manifest import FORMAT
from supervisor.wire.snapshots.manifest import Manifest as TheManifest
from trainers.snapshots import durable_store, tensor_image
from trainers.snapshots.durable_store import SnapshotEntry, Store
from trainers.snapshots.memory_store import MemoryTier
from trainers.snapshots.tensor_image import Tensor
from trainers.snapshots.tmpfs_room import TmpfsRoom
from trainers.snapshots.writer import Saved, SnapshotWriter


def manifest(step: int, serial: int, *, fit_done: bool = False) -> TheManifest:
    """What is said of a snapshot at ``step``."""
    return TheManifest(
        format=FORMAT, job="job", attempt=1, serial=serial, step=step, fit=0,
        fit_done=fit_done, epoch=0, step_in_epoch=step, batch=8, samples=8 * step,
        slices=1, tensors_bytes=0, tensors_hash="", wall_time=1.0, state={},
    )  # fmt: skip


def content(value: float, size: int = 5000) -> list[Tensor]:
    """Two tensors that hold ``value``."""
    return [
        tensor_image.of_array("a", np.full(size, value, np.float32)),
        tensor_image.of_array("b", np.array(int(value), np.int64)),
    ]


@dataclass
class TieredRun:
    """Both tiers of a run, and the saver over them."""

    directory: Path
    store: Store
    memory: MemoryTier
    saver: SnapshotWriter
    told: list[Saved]
    refused: list[str] = field(default_factory=list[str])

    def save(self, step: int, *, durable: bool = False, size: int = 5000) -> None:
        """A snapshot whose values are its step."""
        self.saver.save(
            content(step, size), manifest(step, step), began=0.0, durable=durable
        )
        self.saver.wait()

    def in_memory(self) -> list[int]:
        """Steps of the whole snapshots in memory, the youngest first."""
        return [entry.step for entry in self.memory.entries()]


def open_run(directory: Path, tmpfs: Path, room: TmpfsRoom | None = None) -> TieredRun:
    """The run's tiers as a new process finds them."""
    store = Store(directory / "snapshots", job="job", kept=2)
    options = {} if room is None else {"room": lambda _: room}
    memory = MemoryTier(tmpfs / "run", job="job", durable=store.directory, **options)
    told: list[Saved] = []
    refused: list[str] = []
    saver = SnapshotWriter(
        store, told.append, memory=memory, refused=lambda e: refused.append(str(e))
    )
    return TieredRun(directory, store, memory, saver, told, refused)


def values(run: TieredRun, entry: SnapshotEntry) -> float:
    """What the tensors of a snapshot hold; verified."""
    taken = durable_store.load(entry, job=run.store.job)
    return float(taken.tensors["a"][-1])
