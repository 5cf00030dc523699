"""Main memory that training may grow to: by its cgroup, its spec, the machine.

Documentation: Linux ``admin-guide/cgroup-v2.rst`` (``memory.stat``: ``file``, which
includes ``shmem``) and ``admin-guide/cgroup-v1/memory.rst`` (``cache``, ``shmem``) for what
the kernel can take back before it kills.
"""

from collections.abc import Iterable
from pathlib import Path

import psutil

from supervisor.host.process.cgroup import (
    ROOT,
    event_files,
    parse_field,
    used_and_limit,
)
from supervisor.host.process.proc_files import read_kernel


def capacity(pid: int, *, rss: int, limit: int | None, root: Path = ROOT) -> int:
    """What the resident memory ``rss`` of ``pid`` may grow to.

    ``limit``: the spec's, for the attempt. All in bytes.
    """
    of_machine = rss + psutil.virtual_memory().available
    groups = read_kernel(f"/proc/{pid}/cgroup")
    found = (limit, _in_cgroup(groups, rss=rss, root=root), of_machine)
    return min(one for one in found if one is not None)


def room(groups: str, *, root: Path = ROOT) -> int:
    """Bytes that are left for one more process in the cgroup ``groups``, as the kernel
    writes it in ``/proc/PID/cgroup``."""
    in_cgroup = _in_cgroup(groups, rss=0, root=root)
    of_machine = psutil.virtual_memory().available
    return of_machine if in_cgroup is None else min(in_cgroup, of_machine)


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


def _in_cgroup(groups: str, *, rss: int, root: Path) -> int | None:
    """What it holds, and what is left before the kernel has nothing to take back.

    That may be above the limit: pages of libraries are resident, and the kernel can take
    them back, or has charged them to whoever read them first.
    """
    for events in event_files(groups, root=root):
        used, limit = used_and_limit(events)
        if used is not None and limit is not None:
            cached = _reclaimable(read_kernel(events.with_name("memory.stat")))
            return max(rss + limit - used + cached, 0)
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
