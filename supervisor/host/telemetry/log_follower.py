"""A log, followed while it grows, so that its end is read before it is needed."""

import os
import sys
from pathlib import Path
from typing import BinaryIO

from supervisor.core.advisories.workspace_requests import (
    WorkspaceReader,
    WorkspaceRequests,
)
from supervisor.core.diagnosis.log_scanner import LogFindings, LogScanner
from supervisor.host.telemetry.log_retention import LogRetention, next_data, punch
from supervisor.host.telemetry.text_search import holds
from supervisor.wire.files import open_regular

CHUNK = 1024 * 1024
POLL_BYTES = 16 * CHUNK
"""Read at most in one poll, which takes 80 ms: a log that grows faster than that must not
hold the loop. Whoever is behind reads on at once, and others have their turn between."""
END_BYTES = 256 * CHUNK
"""Read at most of what an attempt left unread: its owner may still append to it."""
FAULT_BYTES = 8 * CHUNK
"""Read at most of a small log such as faulthandler's, from its end."""
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LogFollower:
    """Reads what was appended to ``path`` since the last time.

    A file that shrank, or that another one replaced, is read from its beginning and
    its findings follow the earlier ones. What was read of a log that grows too large is
    given up in its middle (``log_retention``); a hole is passed over.
    """

    def __init__(self, path: Path, *, cap: LogRetention | None = None) -> None:
        self._path = path
        self._cap = cap or LogRetention()
        self._punched_to = 0
        self._scanner = LogScanner(holds=holds)
        self._workspace = WorkspaceReader()
        self._offset = self._begins = 0
        self._identity: tuple[int, int] | None = None
        self.size_bytes: int | None = None
        """As it was at the last ``poll``; None: there was none."""

    def poll(self, *, at_most_bytes: int = POLL_BYTES) -> int:
        """Read on; the number of bytes that were new. A missing log is an empty one."""
        return 0 if self._is_unchanged() else self._poll(at_most_bytes)

    @property
    def workspace(self) -> WorkspaceRequests:
        """What was read of memory that was not granted, and could be done without."""
        return self._workspace.found

    def forget_before(self, offset: int) -> None:
        """What stands before ``offset`` was outlived: it is evidence of nothing."""
        if offset > self._begins:
            self._begins = self._offset = offset
            self._scanner = LogScanner(holds=holds)

    def findings(self, *, at_most_bytes: int = END_BYTES) -> LogFindings:
        """What the log says up to its present end: reads the rest first, or the last
        ``at_most_bytes`` of it."""
        self._poll(at_most_bytes, newest=True)
        return self._scanner.findings()

    def _is_unchanged(self) -> bool:
        """Whether it is the file that was read, and read to its end."""
        try:
            status = self._path.stat(follow_symlinks=False)
        except OSError:
            self.size_bytes = None
            return True
        self.size_bytes = status.st_size
        there = (status.st_dev, status.st_ino), status.st_size
        return there == (self._identity, self._offset)

    def _poll(self, at_most: int, *, newest: bool = False) -> int:
        try:
            with open_regular(self._path) as file:
                return self._read(file, at_most, newest=newest)
        except OSError:
            return 0

    def _read(self, file: BinaryIO, at_most: int, *, newest: bool) -> int:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._offset:
            new = self._identity is None and status.st_size >= self._begins
            self._offset = self._begins if new else 0
            self._identity, self._punched_to = identity, 0
        begin = self._cap.resume_at(size=status.st_size, read_to=self._offset)
        begin = max(begin, status.st_size - at_most) if newest else begin
        self._offset = next_data(file.fileno(), begin)
        file.seek(self._offset)
        done = 0
        while done < at_most and (data := file.read(min(CHUNK, at_most - done))):
            self._scanner.feed(data)
            self._workspace.feed(data)
            done += len(data)
        self._offset += done
        self._keep_small(status.st_size)
        return done

    def _keep_small(self, size: int) -> None:
        hole = self._cap.hole(
            size=size, read_to=self._offset, punched_to=self._punched_to
        )
        if hole is None:
            return
        try:
            descriptor = os.open(self._path, _WRITE)
        except OSError:  # somebody else's file: the shim looks after it
            return
        try:
            if punch(descriptor, *hole):
                self._punched_to = hole[1]
        finally:
            os.close(descriptor)


def scan_stream(stream: BinaryIO, *, at_most_bytes: int = sys.maxsize) -> LogFindings:
    """The findings of what ``stream`` yields. Raises OSError."""
    scanner, left = LogScanner(holds=holds), at_most_bytes
    while left and (data := stream.read(min(CHUNK, left))):
        scanner.feed(data)
        left -= len(data)
    return scanner.findings()


def scan_file(path: Path, *, at_most_bytes: int = FAULT_BYTES) -> LogFindings:
    """The findings of the log at ``path``: of its last ``at_most_bytes``.

    It may be anybody's file: no link is followed, no pipe waited for (``open_regular``).

    Raises:
        OSError: it cannot be opened or read, or is no regular file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - at_most_bytes, 0))
        return scan_stream(file, at_most_bytes=min(size, at_most_bytes))
