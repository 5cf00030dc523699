# ruff: noqa: EM102, TRY003  # these exceptions are their sentences
"""The format of both tiers, and the durable one: a directory, one in it a snapshot.

A snapshot is whole once it has its name ``STEP-SERIAL``: it is written under a name
that ends in ``.partial``, fsynced, renamed, and the rename is fsynced. What is found
damaged goes to ``quarantine/``, what an earlier decision left behind to ``abandoned/``.
"""

import fcntl
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supervisor.wire.files import fsync_directory, read_json, write_atomically
from supervisor.wire.paths import STORE_LOCK
from supervisor.wire.snapshots.manifest import (
    DURABLE,
    FORMAT,
    MANIFEST,
    TENSORS,
    Manifest,
)
from supervisor.wire.snapshots.seal import has_hash, is_sealed, sealed
from trainers.snapshots import tensor_image as tensors

PARTIAL = ".partial"
QUARANTINE = "quarantine"
ABANDONED = "abandoned"
_NAME = re.compile(r"(\d{12})-(\d{6})")
_CHUNK = 16 * 1024 * 1024


class DamagedError(Exception):
    """A snapshot that must not be used; the text says why."""


class DirectoryTakenError(Exception):
    """Another process holds the snapshot directory."""


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot by its name alone: nothing is verified yet."""

    path: Path
    step: int
    serial: int
    tier: str = DURABLE

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that was verified as a whole."""

    entry: SnapshotEntry
    manifest: Manifest
    tensors: Mapping[str, np.ndarray]


def name_of(manifest: Manifest) -> str:
    """The directory's name of the snapshot that ``manifest`` describes."""
    return f"{manifest.step:012d}-{manifest.serial:06d}"


def entries_in(directory: Path, tier: str) -> list[SnapshotEntry]:
    """All snapshots in ``directory`` by name, the youngest first.

    By serial, not by step: after going back to an older one, what was saved later
    belongs to the run, although its steps are fewer.
    """
    found = [
        SnapshotEntry(path, int(match[1]), int(match[2]), tier)
        for path in directory.iterdir()
        if (match := _NAME.fullmatch(path.name)) and path.is_dir()
    ]
    return sorted(found, key=lambda entry: entry.serial, reverse=True)


def describe(entry: SnapshotEntry, *, job: str | None) -> Manifest:
    """The manifest of ``entry``, verified; ``job`` None: of whichever job.

    Raises DamagedError.
    """
    value = read_json(entry.path / MANIFEST)
    if value is None:
        raise DamagedError(f"{MANIFEST} is missing or cannot be read")
    if value.get("format") != FORMAT:
        raise DamagedError(f"format {value.get('format')} is not {FORMAT}")
    manifest = Manifest.from_json(value)
    if manifest is None or not isinstance(manifest.state, dict):
        raise DamagedError(f"{MANIFEST} lacks a field")
    if not is_sealed(manifest):
        raise DamagedError(f"{MANIFEST} does not have the recorded hash")
    if (manifest.step, manifest.serial) != (entry.step, entry.serial):
        raise DamagedError(f"{MANIFEST} belongs to another snapshot")
    if job is not None and manifest.job != job:
        raise DamagedError(f"{MANIFEST} belongs to the job {manifest.job}")
    return manifest


def load(entry: SnapshotEntry, *, job: str | None) -> Snapshot:
    """Verify ``entry`` whole: names, sizes, hashes, header. Raises DamagedError."""
    manifest = describe(entry, job=job)
    try:
        with (entry.path / TENSORS).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != manifest.tensors_bytes:
                raise DamagedError(f"{TENSORS} has {size} bytes, not as recorded")
            content = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        if not has_hash(content, manifest.tensors_hash):
            raise DamagedError(f"{TENSORS} does not have the recorded hash")
        return Snapshot(entry, manifest, tensors.parse(content))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{TENSORS} cannot be read: {error}") from error
    except tensors.DamagedTensorsError as error:
        raise DamagedError(f"{TENSORS}: {error}") from error


class Store:
    """The snapshot directory of a run."""

    def __init__(
        self, directory: Path, *, job: str, kept: int, quota_bytes: int | None = None
    ) -> None:
        """Create and lock ``directory``, and remove what a crash left half-written.

        ``kept`` snapshots stay beside those that are needed, and fewer if all of them
        together take more than ``quota_bytes``.

        Raises:
            OSError: the directory cannot be made or written.
            DirectoryTakenError: another process uses it.
        """
        self.directory = directory
        self.job = job
        self.kept = max(1, kept)
        self.quota_bytes = quota_bytes
        directory.mkdir(parents=True, exist_ok=True)
        # A record lock: children that are forked do not inherit it.
        self._lock = os.open(
            directory / STORE_LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            message = f"another process uses the snapshots in {directory}"
            raise DirectoryTakenError(message) from error
        for leftover in directory.glob(f"*{PARTIAL}"):
            shutil.rmtree(leftover, ignore_errors=True)

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._lock)

    def entries(self) -> list[SnapshotEntry]:
        """All snapshots by name, the youngest first."""
        return entries_in(self.directory, DURABLE)

    def next_serial(self) -> int:
        """A serial that no snapshot has or had, the set-aside ones included."""
        names = [path.name for path in self._everything()]
        serials = [int(m[2]) for name in names if (m := _NAME.match(name))]
        return max(serials, default=0) + 1

    def _everything(self) -> Iterator[Path]:
        yield from self.directory.iterdir()
        for aside in (QUARANTINE, ABANDONED):
            if (self.directory / aside).is_dir():
                yield from (self.directory / aside).iterdir()

    def set_aside(self, entry: SnapshotEntry, where: str) -> None:
        """Move ``entry`` to ``quarantine/`` or ``abandoned/``. Raises OSError."""
        aside = self.directory / where
        aside.mkdir(exist_ok=True)
        target = aside / entry.name
        if target.exists():
            shutil.rmtree(target, ignore_errors=True)
        entry.path.rename(target)
        fsync_directory(self.directory)

    def commit(self, content: memoryview, manifest: Manifest) -> SnapshotEntry:
        """Write a snapshot; it exists whole when this returns.

        Raises:
            OSError: no space, or worse; what was written of it is removed.
        """
        name = name_of(manifest)
        partial = self.directory / f"{name}{PARTIAL}"
        try:
            partial.mkdir()
            _write(partial / TENSORS, content)
            write_atomically(partial / MANIFEST, sealed(manifest))
            fsync_directory(partial)
            final = partial.rename(self.directory / name)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        fsync_directory(self.directory)
        return SnapshotEntry(final, manifest.step, manifest.serial)

    def prune(self, *, never: frozenset[str]) -> int:
        """Remove the oldest beyond what is kept and beyond the quota.

        None that is named in ``never``, and not the newest: it is the last good one.
        Returns the bytes of those that stay beyond the quota all the same; 0: none do.
        """
        entries = self.entries()
        removable = [entry for entry in entries if entry.name not in never]
        doomed = removable[self.kept :]
        beyond = 0
        if self.quota_bytes is not None:
            sizes = {entry: _bytes_in(entry.path) for entry in entries}
            left = sum(sizes.values()) - sum(sizes[entry] for entry in doomed)
            for entry in reversed(removable[: self.kept]):
                if left > self.quota_bytes and entry != entries[0]:
                    doomed.append(entry)
                    left -= sizes[entry]
            beyond = max(left - self.quota_bytes, 0)
        for entry in doomed:
            _remove(entry)
        return beyond


def _remove(entry: SnapshotEntry) -> None:
    # Renamed first: one that is half removed must not look whole.
    doomed = entry.path.with_name(f"{entry.name}{PARTIAL}")
    try:
        entry.path.rename(doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def _bytes_in(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.iterdir())
    except OSError:
        return 0


def _write(path: Path, content: memoryview) -> None:
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    try:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done : done + _CHUNK])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
