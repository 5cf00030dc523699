"""Log retention: what grows without end keeps its head and tail, not its middle.

The program holds the file open and appends to it, so the file can neither be replaced
nor shortened: copying it and cutting it off loses what is written meanwhile. A hole in
its middle gives the disk its blocks back while every offset stays what it was
(``fallocate(2)``, FALLOC_FL_PUNCH_HOLE).
"""

import ctypes
import os
from dataclasses import dataclass

MIB = 1024 * 1024
PAGE = 4096
KEEP_SIZE, PUNCH_HOLE = 0x01, 0x02
"""From linux/falloc.h."""


SLACK = 64 * MIB
LEAST_TAIL = 64 * 1024
"""What ``trainwarden logs`` begins with, and the stacks of some hundred threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRetention:
    """How much of a log stays on disk, in bytes; each a multiple of ``PAGE``."""

    head: int = 32 * MIB
    """The beginning: how it was started, and the first failure."""
    tail: int = 96 * MIB
    slack: int = SLACK
    """So much more before a hole is punched: seldom, and then a large one."""
    behind: int = 1024 * MIB
    """A reader that lags by more goes on nearer to the end: the disk comes first."""

    @classmethod
    def of(cls, *, head: int, tail: int) -> "LogRetention":
        """A cap with these parts, in bytes, rounded up to what can be punched."""
        kept = _whole_pages(max(tail, LEAST_TAIL))
        return cls(head=_whole_pages(head), tail=kept, slack=min(SLACK, kept))

    def hole(
        self, *, size: int, read_to: int, punched_to: int
    ) -> tuple[int, int] | None:
        """Where to punch, from and to; None: nowhere yet.

        ``read_to``: what lies behind is not given up. ``punched_to``: the end of the
        hole that is there.
        """
        start = max(self.head, punched_to)
        end = min(size - self.tail, read_to) // PAGE * PAGE
        return (start, end) if end - start >= self.slack else None

    def resume_at(self, *, size: int, read_to: int) -> int:
        """Where a reader goes on that has read up to ``read_to``."""
        if size - read_to <= self.behind:
            return read_to
        return max((size - self.tail) // PAGE * PAGE, read_to)


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def punch(descriptor: int, start: int, end: int) -> bool:
    """Give the disk back what lies from ``start`` to ``end``; whether it was done.

    ``descriptor`` has to be writable. Not every file system can (NFS below 4.2).
    """
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    mode = PUNCH_HOLE | KEEP_SIZE
    return bool(fallocate(descriptor, mode, start, end - start) == 0)


def next_data(descriptor: int, offset: int) -> int:
    """The first offset from ``offset`` on that is in no hole; the end if none is."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError:  # behind the end, or a file system that knows no holes
        return offset
