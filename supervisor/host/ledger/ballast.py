"""A file that holds room on the disk, to be given up when the disk is full.

What has to be written then (the end of an attempt, an incident, the next attempt's
directive) is little: it fits into what the ballast held, and training goes on.
"""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

BYTES = 8 * 1024 * 1024
OF_A_RUN_BYTES = 512 * 1024
"""For one run, whose end is all that has to be written then: a page of each table and of each
index, and the same in the journal."""
ROOM = 8
"""The disk has to have so many times the ballast free before it is taken up again."""


@dataclass(frozen=True, slots=True)
class Ballast:
    """Room held by ``path``."""

    path: Path
    size: int = BYTES

    def hold(self) -> None:
        """Take up the room, if there is plenty; a disk without is no failure."""
        try:
            if self.path.exists() or self._free() < ROOM * self.size:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
            finally:
                os.close(descriptor)
        except OSError:
            self.drop()

    def _free(self) -> int:
        return shutil.disk_usage(self.path.parent).free

    @property
    def held(self) -> bool:
        """Whether it holds the room now."""
        return self.path.exists()

    def drop(self) -> bool:
        """Give the room back; False: there was none."""
        with contextlib.suppress(OSError):
            self.path.unlink()
            return True
        return False
