"""Reading a part of a log that belongs to somebody else."""

import os
import stat
from pathlib import Path

PART_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024


def read_part(path: Path, offset: int | None) -> tuple[int, bytes]:
    """Where the part begins, and the part. It is read with the eyes of the daemon, so
    it has to be a regular file, and not behind a link."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return offset or 0, b""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return offset or 0, b""
        start = max(found.st_size - TAIL_BYTES, 0) if offset is None else offset
        return start, os.pread(descriptor, PART_BYTES, start)
    except OSError:
        return offset or 0, b""
    finally:
        os.close(descriptor)
