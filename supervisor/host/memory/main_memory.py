"""How far training may grow in main memory: its cgroup, its spec, the machine.

Documentation: proc(5) for ``/proc/meminfo``; Linux ``admin-guide/cgroup-v2.rst``
(``memory.stat``: ``file``, which includes ``shmem``) and
``admin-guide/cgroup-v1/memory.rst`` (``cache``, ``shmem``) for what the kernel can take back before it kills; proc(5) for ``smaps_rollup``.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from supervisor.host.process.cgroup import (
    NO_LIMIT_BYTES,
    ROOT,
    event_files,
    parse_field,
)
from supervisor.host.process.kernel_files import read_kernel

MEMINFO = Path("/proc/meminfo")


def capacity(
    pid: int, *, rss: int, limit: int | None, root: Path = ROOT, meminfo: Path = MEMINFO
) -> int | None:
    """What the resident memory ``rss`` of ``pid`` may grow to; None: not known.

    ``limit``: the spec's, for the attempt. All in bytes.
    """
    available = parse_available(read_kernel(meminfo))
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
    rollup = read_kernel(
        process / "smaps_rollup"
    )  # our own processes', or all for root
    if rollup:
        return parse_private(rollup)
    _, resident, shared, *_ = [*read_kernel(process / "statm").split(), "0", "0", "0"]
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
    for group in _groups(read_kernel(f"/proc/{pid}/cgroup"), root):
        limit = _number(read_kernel(group.limit))
        if limit is None or limit >= NO_LIMIT_BYTES:
            continue
        used = _number(read_kernel(group.used))
        if used is not None:
            left = limit - used + _reclaimable(read_kernel(group.stat))
            return max(rss + left, 0)
    return None


@dataclass(frozen=True, slots=True)
class _Group:
    """The files of a cgroup."""

    limit: str
    used: str
    stat: str


@lru_cache(maxsize=64)
def _groups(membership: str, root: Path) -> tuple[_Group, ...]:
    """Those that ``membership`` (``/proc/PID/cgroup``) names."""
    found: list[_Group] = []
    for events in event_files(membership, root=root):
        second = events.name == "memory.events"
        limit = "memory.max" if second else "memory.limit_in_bytes"
        used = "memory.current" if second else "memory.usage_in_bytes"
        names = (limit, used, "memory.stat")
        found.append(_Group(*(str(events.with_name(name)) for name in names)))
    return tuple(found)


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


def _number(text: str) -> int | None:
    """None for "max", too: that is no limit."""
    return int(text) if text.strip().isdigit() else None
