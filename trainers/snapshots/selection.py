"""The selection of the snapshot that a run resumes from."""

from dataclasses import dataclass, field

from supervisor.wire.snapshots.manifest import DURABLE, MEMORY, Manifest
from trainers.snapshots import durable_store
from trainers.snapshots.durable_store import (
    ABANDONED,
    QUARANTINE,
    DamagedError,
    Snapshot,
    SnapshotEntry,
    Store,
)
from trainers.snapshots.memory_store import MemoryTier


@dataclass(slots=True)
class ResumePlan:
    """Where to go on, and what was found on the way there."""

    newest: Snapshot | None = None
    """The snapshot to go on from; None: from the beginning."""
    finished: dict[int, Snapshot] = field(default_factory=dict)
    """The end state of each earlier call of ``fit``."""
    quarantined: list[dict[str, str]] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """The snapshots in use, never to be pruned."""
        return frozenset(one.entry.name for one in self._used)

    @property
    def in_memory(self) -> frozenset[str]:
        """Those of them whose tensors lie in the memory tier."""
        return frozenset(
            one.entry.name for one in self._used if one.entry.tier == MEMORY
        )

    @property
    def _used(self) -> list[Snapshot]:
        return [*self.finished.values(), *([self.newest] if self.newest else [])]


def choose(
    store: Store, *, memory: MemoryTier | None = None, before_step: int | None
) -> ResumePlan:
    """The youngest whole snapshot whose earlier ``fit`` calls have whole ends too.

    Memory is tried before the disk. What is damaged is moved to ``quarantine/`` on the
    way (in memory: removed); whole ones of ``before_step`` or later to ``abandoned/``,
    so that no later attempt goes on from them. Tensors are read, and their hashes
    checked, only of those that are wanted: each costs a second a gigabyte.
    """
    search = _SnapshotChoice(store, memory)
    if before_step is not None:
        search.abandon(before_step)
    while (candidate := search.youngest()) is not None:
        entry, manifest = candidate
        newest = search.load(entry)
        if newest is None:
            continue
        needed = range(manifest.fit + 1 if manifest.fit_done else manifest.fit)
        ends = {number: search.end_of(number) for number in needed}
        finished = {number: end for number, end in ends.items() if end is not None}
        if len(finished) == len(needed):
            search.plan.newest, search.plan.finished = newest, finished
            break
        search.skip(entry)
    return search.plan


class _SnapshotChoice:
    """What is left to choose from, and what became of the rest."""

    def __init__(self, store: Store, memory: MemoryTier | None) -> None:
        self.plan = ResumePlan()
        self._store, self._memory = store, memory
        entries = [*([] if memory is None else memory.entries()), *store.entries()]
        self._manifests: dict[SnapshotEntry, Manifest] = {}
        self._loaded: dict[SnapshotEntry, Snapshot] = {}
        self._skipped: set[SnapshotEntry] = set()
        for entry in entries:
            try:
                self._manifests[entry] = durable_store.describe(entry, job=store.job)
            except DamagedError as damage:
                self._quarantine(entry, damage)

    def abandon(self, before_step: int) -> None:
        """Set aside what is of ``before_step`` or later."""
        for entry in [e for e in self._manifests if e.step >= before_step]:
            del self._manifests[entry]
            self._set_aside(entry, ABANDONED)

    def youngest(self) -> tuple[SnapshotEntry, Manifest] | None:
        """The next to try; of the same snapshot that in memory."""
        left = [e for e in self._manifests if e not in self._skipped]
        if not left:
            return None
        entry = max(left, key=lambda e: (e.serial, e.tier == MEMORY))
        return entry, self._manifests[entry]

    def skip(self, entry: SnapshotEntry) -> None:
        """It is whole, but cannot be gone on from."""
        self._skipped.add(entry)

    def end_of(self, fit: int) -> Snapshot | None:
        """The youngest whole end of call ``fit``; that on disk stays where it is."""
        ends = [e for e, m in self._manifests.items() if m.fit_done and m.fit == fit]
        ends.sort(key=lambda e: (e.serial, e.tier == DURABLE), reverse=True)
        for entry in ends:
            loaded = self.load(entry)
            if loaded is not None:
                return loaded
        return None

    def load(self, entry: SnapshotEntry) -> Snapshot | None:
        """``entry``, verified; None, and out of the way, if it is damaged."""
        if entry not in self._loaded:
            try:
                self._loaded[entry] = durable_store.load(entry, job=self._store.job)
            except DamagedError as damage:
                del self._manifests[entry]
                self._quarantine(entry, damage)
        return self._loaded.get(entry)

    def _quarantine(self, entry: SnapshotEntry, damage: DamagedError) -> None:
        self.plan.quarantined.append(
            {"snapshot": entry.name, "tier": entry.tier, "because": str(damage)}
        )
        self._set_aside(entry, QUARANTINE)

    def _set_aside(self, entry: SnapshotEntry, where: str) -> None:
        if entry.tier == MEMORY and self._memory is not None:
            self._memory.remove(entry)
        else:
            self._store.set_aside(entry, where)
