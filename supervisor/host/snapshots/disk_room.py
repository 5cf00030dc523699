"""The room for snapshots on disk: what is free, and what they hold there themselves."""

import os
from collections.abc import Iterator
from pathlib import Path

from supervisor.core.lifecycle.events import DiskRoom

BLOCK_BYTES = 512
"""Of ``st_blocks``, whatever the file system (stat(2))."""


def disk_room(directory: Path) -> DiskRoom:
    """That of ``directory``, which holds the snapshots of one run; of nested ones that
    cannot be read nothing is counted."""
    try:
        found = os.statvfs(directory)
        free = found.f_bavail * found.f_frsize
    except OSError:
        free = None
    return DiskRoom(
        directory=str(directory), free_bytes=free, held_bytes=sum(_held(directory))
    )


def _held(directory: Path) -> Iterator[int]:
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                yield (Path(place) / name).lstat().st_blocks * BLOCK_BYTES
            except OSError:
                continue  # it was pruned meanwhile
