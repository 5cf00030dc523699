"""The reports of snapshots that were taken, tier by tier."""

import threading
from collections.abc import Callable
from typing import Any

from supervisor.wire.snapshots.manifest import MEMORY
from trainers.snapshots.writer import Saved

MEMORY_SECONDS = 1.0
"""Snapshots in memory may come several times a second, for days: one record in that time
tells of all since the last."""


class SnapshotNews:
    """Tells of each snapshot on disk, and of those in memory together."""

    def __init__(self, say: Callable[..., None]) -> None:
        """``say(**fields)``: of ``RecordKind.SNAPSHOT``."""
        self._say = say
        self._lock = threading.Lock()  # two saving threads may be done at once
        self._newest: Saved | None = None
        """In memory, and not told yet."""
        self._count = 0
        self._told_at: float | None = None

    def taken(self, saved: Saved, *, now: float) -> None:
        """``saved`` is whole, at ``now`` (monotonic seconds).

        What is on disk tells of what is in memory too: so ends each ``fit``, and a drain.
        """
        with self._lock:
            if saved.tier != MEMORY:
                self._tell_of_memory(now)
                self._tell(saved, 1)
                return
            self._newest, self._count = saved, self._count + 1
            if self._told_at is None or now - self._told_at >= MEMORY_SECONDS:
                self._tell_of_memory(now)

    def _tell_of_memory(self, now: float) -> None:
        if self._newest is not None:
            self._tell(self._newest, self._count)
            self._newest, self._count, self._told_at = None, 0, now

    def _tell(self, saved: Saved, count: int) -> None:
        fields: dict[str, Any] = {
            "snapshot": None if saved.entry is None else saved.entry.name,
            "tier": saved.tier,
            "step": saved.manifest.step,
            "bytes": saved.nbytes,
            "stall_seconds": saved.stall_seconds,
            "seconds": saved.seconds,
        }
        self._say(**fields, **({} if count == 1 else {"snapshots": count}))
