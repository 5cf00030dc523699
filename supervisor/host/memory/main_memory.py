"""How far training may grow in main memory: its cgroup, its spec, the machine.

Documentation: Linux ``admin-guide/cgroup-v2.rst`` (``memory.stat``: ``file``, which
includes ``shmem``) and ``admin-guide/cgroup-v1/memory.rst`` (``cache``, ``shmem``) for what
the kernel can take back before it kills.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

from supervisor.host.process.cgroup import (
    NO_LIMIT_BYTES,
    ROOT,
    event_files,
    parse_field,
)
from supervisor.host.process.kernel_files import read_kernel


def capacity(pid: int, *, rss: int, limit: int | None, root: Path = ROOT) -> int:
    """What the resident memory ``rss`` of ``pid`` may grow to.

    ``limit``: the spec's, for the attempt. All in bytes.
    """
    of_machine = rss + psutil.virtual_memory().available
    found = (limit, _in_cgroup(pid, rss=rss, root=root), of_machine)
    return min(one for one in found if one is not None)


def private_bytes(pids: Iterable[int]) -> int:
    """What processes hold in main memory that no other process shares, together.

    So a worker that was forked counts with what it has written since. Processes that
    are gone count nothing. Takes about a millisecond a process.
    """
    return sum(_private(pid) for pid in pids)


def _private(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        try:
            return process.memory_full_info().uss
        except psutil.AccessDenied:  # another user's, and we are not root
            known = process.memory_info()
            return known.rss - known.shared
    except (psutil.Error, OSError):
        return 0


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
