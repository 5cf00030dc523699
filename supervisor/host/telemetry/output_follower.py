"""What the attempts of a run print, read as it comes: for who watches in the foreground.

Training writes to a file and never waits for a reader; whoever reads slower than it writes
reads on later. What ``log_retention`` has given up meanwhile is counted, not invented.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from supervisor.host.telemetry.log_retention import next_data
from supervisor.wire.files import open_regular


@dataclass(frozen=True, slots=True)
class Output:
    """A part of it."""

    content: bytes
    left_out_bytes: int = 0
    """So many before it are not there any more, or were passed over."""


class OutputFollower:
    """One log after the other, each from its beginning to its end.

    ``output_of``: the log of an attempt. ``newest``: the number of the newest one, which
    whoever starts attempts sets; 0: there is none yet. An older one is over.
    """

    def __init__(self, output_of: Callable[[int], Path], *, after: int = 0) -> None:
        """``after``: the attempts up to this number are not read."""
        self.newest = after
        self._output_of = output_of
        self._attempt = self._after = after
        self._file: BinaryIO | None = None
        self._offset = 0

    def read(self, at_most: int) -> Output:
        """The next part; an empty one where nothing new was printed. Never waits."""
        while True:
            found = self._read(at_most)
            if found.content or self._attempt >= self.newest:
                return found
            self.close()
            self._attempt, self._offset = self._attempt + 1, 0

    def skip(self, *, keep: int) -> int:
        """Pass over what is unread of the present log, but for its last ``keep`` bytes, to
        the beginning of a line if there is one; how many bytes that were."""
        file = self._opened()
        if file is None:
            return 0
        size = os.fstat(file.fileno()).st_size
        begin, before = size - keep, self._offset
        if begin <= before:
            return 0
        line = os.pread(file.fileno(), keep, begin).find(b"\n")
        self._offset = begin + line + 1
        return self._offset - before

    @property
    def unread_bytes(self) -> int:
        """Of the present log."""
        file = self._opened()
        return 0 if file is None else os.fstat(file.fileno()).st_size - self._offset

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO | None:
        """The log, once it is there."""
        if self._file is None and self._attempt > self._after:
            try:
                self._file = open_regular(self._output_of(self._attempt))
            except OSError:
                return None
        return self._file

    def _read(self, at_most: int) -> Output:
        file = self._opened()
        if file is None:
            return Output(b"")
        descriptor = file.fileno()
        try:
            size = os.fstat(descriptor).st_size
            if self._offset >= size:
                return Output(b"")
            begin = next_data(descriptor, self._offset)
            end = min(_next_hole(descriptor, begin, size), begin + at_most)
            content = os.pread(descriptor, end - begin, begin)
        except OSError:
            return Output(b"")
        left_out, self._offset = begin - self._offset, begin + len(content)
        return Output(content, left_out)


def _next_hole(descriptor: int, offset: int, size: int) -> int:
    try:
        return os.lseek(descriptor, offset, os.SEEK_HOLE)
    except OSError:  # a file system that knows none
        return size
