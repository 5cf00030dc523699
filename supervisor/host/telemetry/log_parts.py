"""Parts of a log that belongs to somebody else."""

import os
from pathlib import Path

from supervisor.wire.files import open_regular

PART_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024


def read_part(
    path: Path, offset: int | None, *, owner: int | None = None
) -> tuple[int, bytes]:
    """Where the part begins, and the part; nothing of what cannot be read.

    It is read with the eyes of the daemon, so it has to be a regular file and not
    behind a link. ``owner``: whose it has to be (a uid): a directory on the way that
    its owner made a link must not lead to what somebody else printed. None: ours, where
    nobody else can write.
    """
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            if owner not in {None, found.st_uid}:
                return offset or 0, b""
            start = max(found.st_size - TAIL_BYTES, 0) if offset is None else offset
            return start, os.pread(file.fileno(), PART_BYTES, start)
    except OSError:
        return offset or 0, b""
