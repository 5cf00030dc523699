"""The snapshot writer: training waits for one copy at most, a thread does the rest.

The copy is made into a slot of the memory tier, or into memory of our own where there is
no such tier. Of a small state the training thread takes the values alone (``held``): it
is a thread that finds their place and copies them. Of a larger one that thread copies
what may be copied later (``Image.fill``). It hashes the copy, lets the slot be a
snapshot, and writes it to disk if that was asked for. While it writes, the next snapshot
may go into the other slot.
"""

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.wire.snapshots.manifest import DURABLE, MEMORY, Manifest
from supervisor.wire.snapshots.seal import hash_of
from trainers.process import worker_threads
from trainers.process.worker_threads import Work
from trainers.snapshots.durable_store import SnapshotEntry, Store
from trainers.snapshots.memory_store import MemoryTier, NoMemoryTierError, Slot
from trainers.snapshots.parallel_copy import Pair, copy_all
from trainers.snapshots.tensor_image import Image, Tensor, held, layout_of

THREAD = "trainwarden-saver"


@dataclass(frozen=True, slots=True)
class Saved:
    """How saving one snapshot in one tier went."""

    manifest: Manifest
    entry: SnapshotEntry | None
    """None: it failed."""
    error: OSError | None
    stall_seconds: float
    """How long the training thread waited."""
    seconds: float
    """From the copy to the commit."""
    nbytes: int
    tier: str = DURABLE
    busy_seconds: float = 0.0
    """Of the thread's processor time, without the interpreter's lock: copying, hashing,
    writing."""
    held_seconds: float = 0.0
    """Processor time with it: training may have waited for that long."""


@dataclass(slots=True)
class _Job:
    """One snapshot on its way."""

    manifest: Manifest
    tensors: Sequence[Tensor]
    durable: bool
    began: float
    values: list[Any] | None
    """Those of the tensors, held; None: they are in the image, but for what is left."""
    left: list[Pair] = field(default_factory=list[Pair])
    """To be copied into the image."""
    image: Image | None = None
    """None: it has no memory yet."""
    slot: Slot | None = None
    stall: float = 0.0
    sealed: threading.Event = field(default_factory=threading.Event)
    """The next copy may be made."""
    work: Work | None = None
    hashing_seconds: float = 0.0
    told_seconds: float = 0.0

    def let_go(self) -> None:
        """It is done, and kept until the next one: not what it was made of."""
        self.tensors, self.values, self.image = (), None, None
        self.left.clear()


@dataclass(slots=True)
class SnapshotWriter:
    """Copies in the caller's thread, hashes and writes in its own."""

    store: Store
    done: Callable[[Saved], None]
    """Told of each snapshot in each tier, from the saving thread."""
    protected: set[str] = field(default_factory=set)
    """Names that pruning leaves alone: the ends of fits, the one restored from."""
    memory: MemoryTier | None = None
    refused: Callable[[NoMemoryTierError], None] = field(default=lambda _error: None)
    """Told why there is no memory tier any more."""
    beyond_quota: Callable[[int], None] = field(default=lambda _nbytes: None)
    """Told how many bytes have to stay although they are more than the quota."""
    pinned: set[str] = field(default_factory=set)
    """Names in memory that are still to be restored from."""
    beside: bool = True
    """Whether values may be held while training goes on: not in an allocator that has
    a limit, where a snapshot must not be what fills it."""
    _retired: MemoryTier | None = None
    _own: Image | None = None
    _sealing: _Job | None = None
    _writing: _Job | None = None
    _preparing: Work | None = None

    @property
    def busy(self) -> bool:
        """Whether a copy would have to wait."""
        job = self._sealing
        sealing = job is not None and not job.sealed.is_set()
        return sealing or _alive(self._preparing)

    @property
    def writing(self) -> bool:
        """Whether a durable snapshot is in flight."""
        return self._writing is not None and _alive(self._writing.work)

    def wait(self) -> None:
        """Until no snapshot is in flight in any tier."""
        for work in (self._preparing, *map(_work, (self._sealing, self._writing))):
            if work is not None:
                work.wait()

    def prepared(self, tensors: Sequence[Tensor]) -> bool:
        """Whether a copy of ``tensors`` has its memory; if not, it is made, aside.

        To be asked while not ``busy``.
        """
        if self._fits(tensors):
            return True
        self._preparing = worker_threads.start(
            functools.partial(self._prepare, tensors), name=THREAD
        )
        return False

    def save(
        self,
        tensors: Sequence[Tensor],
        manifest: Manifest,
        *,
        began: float,
        durable: bool = True,
    ) -> float:
        """Copy ``tensors`` and start saving; returns the seconds since ``began``.

        Waits for what is in the way: the copy before, until it is hashed; and where
        this one is to be ``durable``, the durable one before it.
        """
        self._wait_for_memory()
        if durable or self.memory is None:
            self._wait_for_disk()
        values = held(tensors) if self.beside else None
        job = _Job(manifest, tensors, durable, began, values)
        if values is None:
            job.left = self._place(job).fill(tensors)
        if not self.beside:
            copy_all(job.left)
            job.left = []
        job.stall = time.perf_counter() - began
        self._sealing = job
        if job.durable:
            self._writing = job
        job.work = worker_threads.start(functools.partial(self._keep, job), name=THREAD)
        return job.stall

    # --- in the training thread ----------------------------------------------------

    def _wait_for_memory(self) -> None:
        if self._preparing is not None:
            self._preparing.wait()
        if self._sealing is not None:
            self._sealing.sealed.wait()

    def _wait_for_disk(self) -> None:
        """Until the durable snapshot before this one is on disk, or has failed."""
        if self._writing is not None and self._writing.work is not None:
            self._writing.work.wait()

    def _never(self) -> frozenset[str]:
        """Names in memory that must stay: restored from, or being written to disk."""
        job = self._writing
        writing = job is not None and _alive(job.work) and job.slot is not None
        names = {job.slot.path.name} if writing and job and job.slot else set()
        return frozenset(self.pinned | names)

    def _fits(self, tensors: Sequence[Tensor]) -> bool:
        if self.memory is not None:
            try:
                return self.memory.fits(tensors, never=self._never())
            except OSError:
                return True  # told when it is taken
        return self._own is not None and self._own.layout == layout_of(tensors)

    # --- in either -----------------------------------------------------------------

    def _place(self, job: _Job) -> Image:
        """Give ``job`` its memory: a slot, or our own. Raises OSError: there is none."""
        job.slot = self._take(job.tensors)
        if job.slot is None:
            if self._writing is not job:
                self._wait_for_disk()  # our own image is written from, too
            job.durable, self._writing = True, job
            job.image = self._own_image(job.tensors)
        else:
            job.image = job.slot.image
        assert job.image is not None  # noqa: S101  # a slot that was taken has one
        return job.image

    def _take(self, tensors: Sequence[Tensor]) -> Slot | None:
        """A slot in memory; None: there is none to be had, now or any more."""
        if self.memory is None:
            return None
        try:
            return self.memory.take(tensors, never=self._never())
        except NoMemoryTierError as error:
            self._without_memory(error)
            return None

    def _without_memory(self, error: NoMemoryTierError) -> None:
        """What lies in memory stays until a newer one is on disk."""
        self._retired, self.memory = self.memory, None
        self.refused(error)

    def _own_image(self, tensors: Sequence[Tensor]) -> Image:
        if self._own is None or self._own.layout != layout_of(tensors):
            self._own = None  # free the old one first
            self._own = Image(tensors)
        return self._own

    # --- in the saving thread ------------------------------------------------------

    def _prepare(self, tensors: Sequence[Tensor]) -> None:
        if self._take(tensors) is None:
            self._wait_for_disk()
            self._own_image(tensors)

    def _keep(self, job: _Job) -> None:
        job.told_seconds = time.thread_time()  # the thread did other work before
        try:
            image = self._placed(job)
            if image is not None:
                self._seal(job, image)
                if job.durable:
                    self._commit(job, DURABLE, lambda: self._on_disk(job, image))
        finally:
            job.let_go()
            job.sealed.set()

    def _placed(self, job: _Job) -> Image | None:
        """The memory of ``job``; None: there is none to copy into, which was told."""
        try:
            return job.image or self._place(job)
        except OSError as error:
            self._tell(job, DURABLE, None, error)
            return None

    def _seal(self, job: _Job, image: Image) -> None:
        if job.values is not None:
            job.left, job.values = image.pairs(job.tensors, job.values), None
        began = time.thread_time()
        copy_all(job.left, most_threads=1)  # the other cores are training's again
        job.left.clear()
        digest = hash_of(image.content)
        job.hashing_seconds = time.thread_time() - began
        job.manifest = replace(
            job.manifest, tensors_bytes=image.nbytes, tensors_hash=digest
        )
        if job.slot is not None and self.memory is not None:
            keep = functools.partial(self.memory.commit, job.slot, job.manifest)
            error = self._commit(job, MEMORY, keep)
            if error is not None:
                self._to_disk_instead(job, error)
                return
            self._prepare_next(job)
            job.sealed.set()  # the next copy goes into the other slot

    def _to_disk_instead(self, job: _Job, error: OSError) -> None:
        """The copy is there, but memory has no room for the few KiB beside it."""
        self._without_memory(NoMemoryTierError(f"{error.strerror}", error.errno))
        if not job.durable:
            self._wait_for_disk()
            job.durable = True

    def _prepare_next(self, job: _Job) -> None:
        """The other slot, where it does not fit yet: not while training waits."""
        assert job.slot is not None  # noqa: S101  # the caller looked
        memory, never = self.memory, self._never() | {job.slot.path.name}
        try:
            if memory is not None and not memory.fits(job.tensors, never=never):
                memory.take(job.tensors, never=never)
        except NoMemoryTierError as error:
            self._without_memory(error)
        except OSError:
            return  # told when it is taken

    def _on_disk(self, job: _Job, image: Image) -> SnapshotEntry:
        entry = self.store.commit(image.content, job.manifest)
        if self._retired is not None and job.slot is None:
            self._retired.close()
            self._retired = None
        if job.manifest.fit_done:
            self.protected.add(entry.name)
        beyond = self.store.prune(never=frozenset(self.protected))
        if beyond:
            self.beyond_quota(beyond)
        return entry

    def _commit(
        self, job: _Job, tier: str, commit: Callable[[], SnapshotEntry]
    ) -> OSError | None:
        entry, error = None, None
        try:
            entry = commit()
        except OSError as caught:
            error = caught
        self._tell(job, tier, entry, error)
        return error

    def _tell(
        self,
        job: _Job,
        tier: str,
        entry: SnapshotEntry | None,
        error: OSError | None,
    ) -> None:
        used = time.thread_time()
        taken, job.told_seconds = used - job.told_seconds, used
        busy = job.hashing_seconds if tier == MEMORY else taken
        self.done(
            Saved(
                job.manifest,
                entry,
                error,
                stall_seconds=job.stall,
                seconds=time.perf_counter() - job.began,
                nbytes=0 if job.image is None else job.image.nbytes,
                tier=tier,
                busy_seconds=busy,
                held_seconds=taken - busy,
            )
        )


def _alive(work: Work | None) -> bool:
    return work is not None and work.is_alive


def _work(job: _Job | None) -> Work | None:
    return None if job is None else job.work
