"""The main memory that is free: the machine's, and under each limit of the cgroup."""

from dataclasses import dataclass
from pathlib import Path

HEADROOM = 0.1
"""Share of each limit that is left to others."""


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """What may be taken, in bytes, and what limits it; negative: too much is in use."""

    nbytes: int
    limit: str


def free_memory() -> list[FreeMemory]:
    """Under each limit that holds for this process; empty: nobody tells of any."""
    found: list[FreeMemory] = []
    memory = parse_meminfo(read_or_empty(Path("/proc/meminfo")))
    if memory is not None:
        total, available = memory
        left = int(available - HEADROOM * total)
        found.append(FreeMemory(left, "the machine's memory"))
    membership = read_or_empty(Path("/proc/self/cgroup"))
    return found + cgroup_memory(Path("/sys/fs/cgroup"), membership)


def parse_meminfo(text: str) -> tuple[int, int] | None:
    """MemTotal and MemAvailable of ``/proc/meminfo`` in bytes; None if not there. The
    user's interpreter trains, and may have no psutil."""
    lines = (line.split() for line in text.splitlines())
    values = {words[0]: int(words[1]) for words in lines if len(words) > 1}
    if "MemTotal:" not in values or "MemAvailable:" not in values:
        return None
    return values["MemTotal:"] * 1024, values["MemAvailable:"] * 1024


def cgroup_memory(root: Path, membership: str) -> list[FreeMemory]:
    """Under each memory limit of a cgroup (v1 or v2) and those above it."""
    found: list[FreeMemory] = []
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
            left = _under_limit(base / group, limit, usage)
            found += [] if left is None else [left]
    return found


def _under_limit(group: Path, limit: str, usage: str) -> FreeMemory | None:
    """None: no limit there. The page cache counts as free: it goes when asked."""
    most = read_or_empty(group / limit).strip()
    used = read_or_empty(group / usage).strip()
    if not most.isdigit() or not used.isdigit() or int(most) >= 1 << 60:
        return None
    held = int(used) - parse_cached(read_or_empty(group / "memory.stat"))
    left = int(int(most) * (1 - HEADROOM)) - held
    return FreeMemory(left, f"the memory limit of the cgroup {group.name}")


def parse_cached(text: str) -> int:
    """Bytes of files in the page cache, of a cgroup's ``memory.stat`` (v1 or v2)."""
    words = (line.split() for line in text.splitlines())
    values = {line[0]: int(line[1]) for line in words if len(line) == 2}
    names = ("inactive_file", "active_file")
    total = "total_" if "total_active_file" in values else ""
    return sum(values.get(f"{total}{name}", 0) for name in names)


def read_or_empty(path: Path) -> str:
    """The file's text; empty: it is not there, or cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
