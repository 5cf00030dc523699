"""The memory tier: two snapshots in a tmpfs, in turn. They survive the process.

The format and the names are those on disk: a directory ``STEP-SERIAL`` is whole. Before
the first byte of a slot changes, its directory loses that name, and it gets the next one
after its tensors were hashed and its manifest written: a snapshot in flight when the
process dies has no name to be mistaken by. The memory of a slot is allocated once
(``posix_fallocate``: a hole in a full tmpfs would be a SIGBUS in training), mapped, and
used again and again.
"""

import errno
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.wire.files import write_atomically, write_json
from supervisor.wire.paths import OWNER
from supervisor.wire.snapshots.manifest import MANIFEST, MEMORY, TENSORS, Manifest
from supervisor.wire.snapshots.seal import sealed
from trainers.snapshots import durable_store
from trainers.snapshots.durable_store import PARTIAL, SnapshotEntry
from trainers.snapshots.tensor_image import Image, Tensor, layout_of
from trainers.snapshots.tmpfs_room import TmpfsRoom, is_tmpfs, room_in

SLOTS = 2
DISK_ONLY = "snapshots go to disk only, none is kept in memory"


class NoMemoryTierError(Exception):
    """There can be no memory tier; the text is the sentence for a person."""

    def __init__(self, reason: str, number: int | None = None) -> None:
        """``number``: the errno, or the one that stands for it."""
        super().__init__(f"{DISK_ONLY}: {reason}")
        self.number = number


@dataclass(slots=True)
class Slot:
    """The memory of one snapshot."""

    path: Path
    """Its directory, as it is called now."""
    index: int
    serial: int | None = None
    """Of the whole snapshot in it; None: it has none."""
    image: Image | None = None


class MemoryTier:
    """The two slots of a run, in the directory ``directory``."""

    def __init__(
        self,
        directory: Path,
        *,
        job: str,
        durable: Path,
        room: Callable[[Path], TmpfsRoom] = room_in,
    ) -> None:
        """Make or take over ``directory``, and remove what was in flight.

        Only one process may do this: it holds the lock of the durable tier ``durable``.

        Raises:
            NoMemoryTierError: it cannot be made, or belongs to somebody else.
        """
        self.directory = directory
        self.job = job
        self._room = room
        try:
            if not is_tmpfs(directory.parent):
                reason = f"{directory.parent} is no tmpfs"
                raise NoMemoryTierError(reason)
            _own(directory)
            write_json(directory / OWNER, {"snapshots": str(durable.absolute())})
            for leftover in directory.glob(f"*{PARTIAL}"):
                shutil.rmtree(leftover, ignore_errors=True)
            whole = self.entries()
        except OSError as error:
            reason = f"{directory} cannot be used: {error.strerror}"
            raise NoMemoryTierError(reason, error.errno) from error
        self._slots = [
            Slot(entry.path, index, entry.serial) for index, entry in enumerate(whole)
        ]

    def entries(self) -> list[SnapshotEntry]:
        """The whole snapshots by name, the youngest first."""
        return durable_store.entries_in(self.directory, MEMORY)

    def remove(self, entry: SnapshotEntry) -> None:
        """Give up ``entry``: damaged memory is not kept to look at. Raises OSError."""
        self._slots = [slot for slot in self._slots if slot.path != entry.path]
        doomed = entry.path.with_name(f"{entry.name}{PARTIAL}")
        entry.path.rename(doomed)
        shutil.rmtree(doomed)

    def close(self) -> None:
        """Remove the tier and all that is in it."""
        self._slots = []
        shutil.rmtree(self.directory, ignore_errors=True)

    def fits(self, tensors: Sequence[Tensor], *, never: frozenset[str]) -> bool:
        """Whether ``take`` need not allocate. Raises OSError."""
        slot = self._next(never)
        if slot is None:
            return True
        return slot.image is not None and slot.image.layout == layout_of(tensors)

    def take(self, tensors: Sequence[Tensor], *, never: frozenset[str]) -> Slot | None:
        """A slot for ``tensors``, whose snapshot is gone from here on.

        The one with the older snapshot, but none that is named in ``never``; None:
        there is no other.

        Raises:
            NoMemoryTierError: two such snapshots do not fit.
        """
        try:
            slot = self._next(never)
            if slot is None:
                return None
            self._empty(slot)
            if slot.image is None or slot.image.layout != layout_of(tensors):
                slot.image = None  # give the old memory back first
                slot.image = Image(
                    tensors, allocate=lambda nbytes: self._map(slot, nbytes)
                )
        except OSError as error:
            reason = f"{self.directory} cannot be written: {error.strerror}"
            raise NoMemoryTierError(reason, error.errno) from error
        return slot

    def commit(self, slot: Slot, manifest: Manifest) -> SnapshotEntry:
        """Let the filled ``slot`` be a snapshot; whole when this returns.

        Raises OSError: it is none then.
        """
        write_atomically(slot.path / MANIFEST, sealed(manifest))
        slot.path = slot.path.rename(self.directory / durable_store.name_of(manifest))
        slot.serial = manifest.serial
        return SnapshotEntry(slot.path, manifest.step, manifest.serial, MEMORY)

    def _next(self, never: frozenset[str]) -> Slot | None:
        """The slot to use next: an empty one, or that with the older snapshot."""
        if len(self._slots) < SLOTS and all(slot.serial for slot in self._slots):
            index = min({0, 1} - {slot.index for slot in self._slots})
            slot = Slot(self.directory / f"slot-{index}{PARTIAL}", index)
            slot.path.mkdir(mode=0o700, exist_ok=True)
            self._slots.append(slot)
        free = [slot for slot in self._slots if slot.path.name not in never]
        return min(free, key=lambda slot: slot.serial or 0, default=None)

    def _empty(self, slot: Slot) -> None:
        slot.serial = None
        slot.path = slot.path.rename(self.directory / f"slot-{slot.index}{PARTIAL}")
        (slot.path / MANIFEST).unlink(missing_ok=True)

    def _map(self, slot: Slot, nbytes: int) -> mmap.mmap:
        """Memory of ``nbytes`` in the tensor file of ``slot``, all of it there."""
        path = slot.path / TENSORS
        if _size(path) != nbytes:
            path.unlink(missing_ok=True)
            self._check_room(nbytes)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, nbytes)
            return mmap.mmap(
                descriptor, nbytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE
            )
        finally:
            os.close(descriptor)

    def _check_room(self, nbytes: int) -> None:
        """Room for this slot, and for those that do not exist yet."""
        wanted = nbytes * (1 + SLOTS - len(self._slots))
        room = self._room(self.directory)
        if wanted > room.nbytes:
            raise NoMemoryTierError(room.why_not(wanted), errno.ENOSPC)


def _own(directory: Path) -> None:
    """Make ``directory``, or see that it is ours alone. Raises OSError."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if not private or found.st_uid != os.geteuid():
            message = "it exists and is not a directory of ours alone"
            raise PermissionError(1, message) from None


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
