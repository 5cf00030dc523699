"""Where a file ended at a snapshot, and whether another is the same up to there."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from supervisor.wire.json_record import JsonRecord

TAIL_BYTES = 4096
SMALL_BYTES = 64 * 1024
"""A file that is rewritten as a whole is kept in the snapshot up to this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd(JsonRecord):
    """A file at a snapshot."""

    size: int
    tail: str
    """Hash of its last bytes."""
    open: bool = False
    """The script had it open to write."""
    appends: bool = False
    text: str | None = None
    """All of it, where it was small and is rewritten as a whole: ``latin-1``."""
    why_not: str | None = None
    """Why it cannot be put back to here."""

    @property
    def grows(self) -> bool:
        """What is written comes after what is there: it can be cut back to here."""
        return self.open or self.appends

    def difference(self, path: Path) -> str | None:
        """Why ``path`` does not begin with what it was; None: it does. Raises OSError."""
        size = path.stat().st_size
        if size < self.size:
            return f"it is {self.size - size} bytes shorter than it was then"
        if tail_of(path, self.size) != self.tail:
            return "it is not the same as then"
        return None


def tail_of(path: Path, end: int) -> str:
    """Hash of the bytes before ``end``. Raises OSError."""
    return hashlib.blake2b(read(path, end, TAIL_BYTES), digest_size=16).hexdigest()


def read(path: Path, end: int, at_most: int) -> bytes:
    """The last bytes before ``end``. Raises OSError."""
    length = min(at_most, end)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return os.pread(descriptor, length, end - length)
    finally:
        os.close(descriptor)
