"""The store of compilations: what XLA compiled in earlier attempts of a job, on disk.

TensorFlow believes what it finds in its cache. An entry that was cut short ended a ``fit``
as if its data were over, with exit code 0 and other weights; flipped bytes raised, or
ended the process by SIGILL or SIGABRT; one in another's place raised. So frameworks never
read what lies here: they are handed the bytes that have the hash recorded with them, and
what has not is removed. What can be wrong with the disk costs a compilation.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from supervisor.wire.files import fsync_directory, open_regular, write_atomically
from supervisor.wire.snapshots.seal import has_hash, hash_of

FORMAT = b"trainwarden compilation 1"
SUFFIX = ".compiled"
DOUBTED = "in-doubt"
"""Beside the entries, while nobody knows whether one can go by them."""
MOST_HEADER_BYTES = 4096
FREE_FOR_EACH = 10
"""So many times an entry must be free: snapshots need the disk more than we do."""
NO_ROOM = "the [compilation] quota of the spec, {} bytes, is used up"
NEARLY_FULL = "the disk is nearly full"


class CompilationStore:
    """The entries of one ``key`` below ``directory``, which those of others share.

    Only one process uses a directory at a time: that of the job's one attempt, with a
    store for each framework, of which one at a time does anything.
    """

    def __init__(self, directory: Path, *, key: str, quota_bytes: int) -> None:
        """Nothing is read or made yet. ``key``: what decides what is compiled, as a
        name for a file. All keys together take ``quota_bytes`` at most."""
        self._directory = directory
        self._place = directory / key
        self._quota_bytes = quota_bytes
        self._bytes = 0
        self.dropped = False
        """Whether entries were given up because an attempt ended that went by them."""

    def take(self, most_bytes: int | None = None) -> Iterator[tuple[str, bytes]]:
        """What earlier attempts compiled, each with its framework's name: the newest
        first, one in memory at a time, together ``most_bytes`` at most (None: all).

        Makes room before the first, oldest entries first. From the first until
        ``proven`` the entries are in doubt: where the attempt before left them so, they
        are removed, and there are none.

        Raises:
            OSError: the disk is full, or may not be written: there are none, then.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._place.mkdir(mode=0o700, exist_ok=True)
        doubted = self._place / DOUBTED
        self.dropped = doubted.exists()
        if self.dropped:
            self._remove_entries()
            doubted.unlink()
        self._prune()
        return self._in_doubt(self._whole_entries(most_bytes))

    def _in_doubt(
        self, entries: Iterator[tuple[str, bytes]]
    ) -> Iterator[tuple[str, bytes]]:
        doubted = False
        for entry in entries:
            if not doubted:
                write_atomically(self._place / DOUBTED, b"")
                doubted = True
            yield entry

    def proven(self) -> None:
        """Training went on with what was taken. Raises OSError."""
        (self._place / DOUBTED).unlink(missing_ok=True)

    def put(self, name: str, content: bytes) -> str | None:
        """Keep a compilation; or why it is not, in words; None: it is.

        Raises:
            OSError: it could not be written; nothing of it is left.
        """
        header = _header(name, content)
        path = self._path(name)
        size = len(header) + len(content)
        more = size - _size_of(path)  # one that was not loaded was compiled again
        if self._bytes + more > self._quota_bytes:
            return NO_ROOM.format(self._quota_bytes)
        if size * FREE_FOR_EACH > _free_bytes(self._directory):
            return NEARLY_FULL
        # Another framework's store may have cleared it away while it was empty.
        self._place.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, header + content)
        self._bytes += more
        return None

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return self._place / f"{digest[:32]}{SUFFIX}"

    def _whole_entries(self, most_bytes: int | None) -> Iterator[tuple[str, bytes]]:
        left = most_bytes
        for _, path, size in sorted(self._entries(self._place.name), reverse=True):
            if left is not None and size > left:
                continue  # not read: it would take memory that training needs
            entry = read_entry(path)
            if entry is None or self._path(entry[0]) != path:
                path.unlink(missing_ok=True)
                continue
            left = None if left is None else left - size
            yield entry

    def _entries(self, key: str) -> list[tuple[int, Path, int]]:
        """When each of ``key`` (or of a pattern of keys) was compiled, and its size."""
        return [
            (found.st_mtime_ns, path, found.st_size)
            for path in self._directory.glob(f"{key}/*{SUFFIX}")
            for found in (path.lstat(),)
        ]

    def _remove_entries(self) -> None:
        for path in self._place.glob(f"*{SUFFIX}"):
            path.unlink(missing_ok=True)
        fsync_directory(self._place)

    def _prune(self) -> None:
        """To half of the quota at most, so that what is new has room, too."""
        for left in self._directory.glob("*/.*.tmp"):
            left.unlink(missing_ok=True)
        entries = self._entries("*")
        self._bytes = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if self._bytes <= self._quota_bytes // 2:
                break
            path.unlink(missing_ok=True)
            self._bytes -= size
        for place in self._directory.iterdir():
            if place != self._place and place.is_dir():
                _remove_if_empty(place)


def read_entry(path: Path) -> tuple[str, bytes] | None:
    """Name and content of the entry in the file; None: it is damaged, or none."""
    try:
        with open_regular(path) as file:
            stored = file.read()
    except OSError:
        return None
    line, newline, content = stored.partition(b"\n")
    if not newline or len(line) > MOST_HEADER_BYTES:
        return None
    kind, _, rest = line.partition(b" sha256:")
    digest, _, name = rest.partition(b" ")
    try:
        named, recorded = name.decode(), f"sha256:{digest.decode()}"
    except UnicodeDecodeError:
        return None
    whole = kind == FORMAT and has_hash(_sealed(named, content), recorded)
    return (named, content) if whole else None


def _header(name: str, content: bytes) -> bytes:
    recorded = hash_of(_sealed(name, content)).encode()
    return FORMAT + b" " + recorded + b" " + name.encode() + b"\n"


def _sealed(name: str, content: bytes) -> bytes:
    """What the hash is of: an entry under another's name is damage, too."""
    return name.encode() + b"\0" + content


def _size_of(path: Path) -> int:
    """0: it is not there. Raises OSError."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _remove_if_empty(place: Path) -> None:
    entries = list(place.iterdir())
    if any(path.suffix == SUFFIX for path in entries):
        return
    for path in entries:
        path.unlink(missing_ok=True)
    place.rmdir()
