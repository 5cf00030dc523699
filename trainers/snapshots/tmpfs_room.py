"""The room in a tmpfs: by its own limit, the machine's memory, and the cgroup's.

A tmpfs promises more than there is: half of the machine's memory by default, whoever
else uses it, and its pages are charged to the cgroup of who touches them. Taking the
last of them kills training, which the snapshots are for.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

HEADROOM = 0.1
"""Share of each limit that is left to others."""


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
    limits = [TmpfsRoom(int(free - HEADROOM * size), f"the tmpfs {directory.parent}")]
    memory = parse_meminfo(_read(Path("/proc/meminfo")))
    if memory is not None:
        total, available = memory
        limits.append(
            TmpfsRoom(int(available - HEADROOM * total), "the machine's memory")
        )
    limits += _cgroup_rooms(Path("/sys/fs/cgroup"), _read(Path("/proc/self/cgroup")))
    return min(limits, key=lambda room: room.nbytes)


def parse_meminfo(text: str) -> tuple[int, int] | None:
    """MemTotal and MemAvailable of ``/proc/meminfo`` in bytes; None if not there. The
    user's interpreter trains, and may have no psutil."""
    lines = (line.split() for line in text.splitlines())
    values = {words[0]: int(words[1]) for words in lines if len(words) > 1}
    if "MemTotal:" not in values or "MemAvailable:" not in values:
        return None
    return values["MemTotal:"] * 1024, values["MemAvailable:"] * 1024


def _cgroup_rooms(root: Path, membership: str) -> list[TmpfsRoom]:
    """The room under each memory limit of a cgroup (v1 or v2) and those above it."""
    rooms = []
    for line in membership.splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            base, limit, usage = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit = root / "memory", "memory.limit_in_bytes"
            usage = "memory.usage_in_bytes"
        else:
            continue
        inside = Path(place.lstrip("/"))
        for group in (inside, *inside.parents):
            room = _cgroup_room(base / group, limit, usage)
            rooms += [] if room is None else [room]
    return rooms


def _cgroup_room(group: Path, limit: str, usage: str) -> TmpfsRoom | None:
    """None: no limit there. The page cache counts as free: it goes when asked."""
    most, used = _read(group / limit).strip(), _read(group / usage).strip()
    if not most.isdigit() or not used.isdigit() or int(most) >= 1 << 60:
        return None
    held = int(used) - parse_cached(_read(group / "memory.stat"))
    left = int(int(most) * (1 - HEADROOM)) - held
    return TmpfsRoom(left, f"the memory limit of the cgroup {group.name}")


def parse_cached(text: str) -> int:
    """Bytes of files in the page cache, of a cgroup's ``memory.stat`` (v1 or v2)."""
    words = (line.split() for line in text.splitlines())
    values = {line[0]: int(line[1]) for line in words if len(line) == 2}
    names = ("inactive_file", "active_file")
    total = "total_" if "total_active_file" in values else ""
    return sum(values.get(f"{total}{name}", 0) for name in names)


def is_tmpfs(directory: Path) -> bool:
    """Whether ``directory`` lies in memory. Raises OSError."""
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0] in ("tmpfs", "ramfs")
    return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"
