"""The room in a tmpfs: by its own limit, the machine's memory, and the cgroup's.

A tmpfs promises more than there is: half of the machine's memory by default, whoever
else uses it, and its pages are charged to the cgroup of who touches them. Taking the
last of them kills training, which the snapshots are for.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from trainers.process.environment.free_memory import (
    HEADROOM,
    FreeMemory,
    free_memory,
    read_or_empty,
)


@dataclass(frozen=True, slots=True)
class TmpfsRoom:
    """What may be taken, and what limits it."""

    nbytes: int
    limit: str

    def why_not(self, wanted: int) -> str:
        """Why ``wanted`` bytes do not fit."""
        return (
            f"two snapshots need {_mib(wanted)} and {self.limit} leaves"
            f" {_mib(max(self.nbytes, 0))} for them"
        )


def room_in(directory: Path) -> TmpfsRoom:
    """The room in the tmpfs of ``directory``. Raises OSError."""
    size, _, free = shutil.disk_usage(directory)
    own = FreeMemory(int(free - HEADROOM * size), f"the tmpfs {directory.parent}")
    least = min([own, *free_memory()], key=lambda found: found.nbytes)
    return TmpfsRoom(least.nbytes, least.limit)


def is_tmpfs(directory: Path) -> bool:
    """Whether ``directory`` lies in memory. Raises OSError."""
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in read_or_empty(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0] in ("tmpfs", "ramfs")
    return False


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"
