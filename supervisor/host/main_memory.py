"""How far training may grow in main memory: its cgroup, its spec, the machine.

Documentation: proc(5) for ``/proc/meminfo``; Linux ``admin-guide/cgroup-v2.rst``
(``memory.stat``: ``file``, which includes ``shmem``) and
``admin-guide/cgroup-v1/memory.rst`` (``cache``, ``shmem``) for what the kernel can take back before it kills; proc(5) for ``smaps_rollup``.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from supervisor.host.cgroup import ROOT, event_files

MEMINFO = Path("/proc/meminfo")
NO_LIMIT_BYTES = 2**62
"""Version 1 writes the largest multiple of a page where there is no limit."""


def capacity(
    pid: int, *, rss: int, limit: int | None, root: Path = ROOT, meminfo: Path = MEMINFO
) -> int | None:
    """What the resident memory ``rss`` of ``pid`` may grow to; None: not known.

    ``limit``: the spec's, for the attempt. All in bytes.
    """
    available = parse_available(_text(meminfo))
    found = [
        limit,
        _in_cgroup(pid, rss=rss, root=root),
        None if available is None else rss + available,
    ]
    return min((one for one in found if one is not None), default=None)


def private_bytes(pids: Iterable[int]) -> int:
    """What processes hold in main memory that no other process shares, together.

    So a worker that was forked counts with what it has written since. Processes that
    are gone count nothing. Takes about a millisecond a process.
    """
    return sum(_private(Path(f"/proc/{pid}")) for pid in pids)


def _private(process: Path) -> int:
    rollup = _text(process / "smaps_rollup")  # our own processes', or all for root
    if rollup:
        return parse_private(rollup)
    _, resident, shared, *_ = [*_text(process / "statm").split(), "0", "0", "0"]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def parse_private(rollup: str) -> int:
    """``Private_Clean`` and ``Private_Dirty`` of ``smaps_rollup``, in bytes."""
    found = 0
    for line in rollup.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        private = name in {"Private_Clean", "Private_Dirty"}
        if private and number and number[0].isdigit():
            found += int(number[0]) * 1024
    return found


def parse_available(text: str) -> int | None:
    """``MemAvailable`` of ``/proc/meminfo`` in bytes."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if name == "MemAvailable" and number and number[0].isdigit():
            return int(number[0]) * 1024
    return None


def _in_cgroup(pid: int, *, rss: int, root: Path) -> int | None:
    """What it holds, and what is left before the kernel has nothing to take back.

    That may be above the limit: pages of libraries are resident, and the kernel can take
    them back, or has charged them to whoever read them first.
    """
    membership = _text(Path(f"/proc/{pid}/cgroup"))
    for events in event_files(membership, root=root):
        group, second = events.parent, events.name == "memory.events"
        used = _number(
            group / ("memory.current" if second else "memory.usage_in_bytes")
        )
        limit = _number(group / ("memory.max" if second else "memory.limit_in_bytes"))
        if used is not None and limit is not None and limit < NO_LIMIT_BYTES:
            room = limit - used + _reclaimable(_text(group / "memory.stat"))
            return max(rss + room, 0)
    return None


def _reclaimable(stat: str) -> int:
    """What is cached of files, by the names that this version of cgroups has for it;
    less those in a tmpfs, such as snapshots: they are nowhere else."""
    for cached, in_tmpfs in (
        ("file", "shmem"), ("total_cache", "total_shmem"), ("cache", "shmem")
    ):  # fmt: skip
        found = parse_field(stat, cached)
        if found is not None:
            return max(found - (parse_field(stat, in_tmpfs) or 0), 0)
    return 0


def parse_field(text: str, field: str) -> int | None:
    """The count after ``field``; None where there is no such line."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == field and value.strip().isdigit():
            return int(value)
    return None


def _number(path: Path) -> int | None:
    """None for "max", too: that is no limit."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
