"""Memory cgroups, versions 1 and 2: what is charged, and how often the OOM killer struck.

Documentation: Linux ``admin-guide/cgroup-v2.rst`` (``memory.current``, ``memory.max``,
``memory.events``) and ``admin-guide/cgroup-v1/memory.rst`` (``memory.usage_in_bytes``,
``memory.limit_in_bytes``, ``memory.failcnt``, ``memory.oom_control``).
"""

from functools import lru_cache
from pathlib import Path

from supervisor.core.metrics.machine_state import CgroupMemory
from supervisor.host.process.kernel_files import read_kernel

ROOT = Path("/sys/fs/cgroup")


def oom_kills(pid: int | str = "self", *, root: Path = ROOT) -> int | None:
    """OOM kills counted in the memory cgroup of ``pid`` so far; None: not readable."""
    for path in event_files(read_kernel(f"/proc/{pid}/cgroup"), root=root):
        count = parse_oom_kills(read_kernel(path))
        if count is not None:
            return count
    return None


@lru_cache(maxsize=64)
def event_files(membership: str, *, root: Path) -> tuple[Path, ...]:
    """The files that may count OOM kills, by the text of ``/proc/PID/cgroup``.

    A container often sees its own cgroup as the root, so that is tried as well.
    """
    files: list[Path] = []
    for line in membership.splitlines():
        _, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        below = path.lstrip("/")
        if not (first and second):
            continue
        if "memory" in controllers.split(","):
            base, name = root / "memory", "memory.oom_control"
        elif not controllers:
            base, name = root, "memory.events"
        else:
            continue
        files += [base / below / name, base / name]
    return tuple(files)


def parse_oom_kills(text: str) -> int | None:
    """The count after ``oom_kill``; None where there is no such line."""
    return parse_field(text, "oom_kill")


def parse_field(text: str, field: str) -> int | None:
    """The count after ``field``; None where there is no such line."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == field and value.strip().isdigit():
            return int(value)
    return None


def counted_since(before: int | None) -> int | None:
    """OOM kills in our own cgroup since it counted ``before``; None: not known."""
    now = oom_kills()
    return None if before is None or now is None else max(now - before, 0)


NO_LIMIT_BYTES = 2**62
"""Version 1 writes the largest multiple of a page where there is no limit."""


def read_memory(pid: int, *, root: Path = ROOT) -> CgroupMemory | None:
    """The memory cgroup of ``pid``; None: there is none that can be read."""
    for events in event_files(read_kernel(f"/proc/{pid}/cgroup"), root=root):
        found = _memory(
            events.parent, version=2 if events.name == "memory.events" else 1
        )
        if found.used_bytes is not None:
            return found
    return None


def _memory(group: Path, *, version: int) -> CgroupMemory:
    if version == 2:
        events = read_kernel(group / "memory.events")
        return CgroupMemory(
            used_bytes=_number(read_kernel(group / "memory.current")),
            limit_bytes=_limit(read_kernel(group / "memory.max")),
            oom_kills=parse_oom_kills(events),
            refusals=parse_field(events, "max"),
        )
    return CgroupMemory(
        used_bytes=_number(read_kernel(group / "memory.usage_in_bytes")),
        limit_bytes=_limit(read_kernel(group / "memory.limit_in_bytes")),
        oom_kills=parse_oom_kills(read_kernel(group / "memory.oom_control")),
        refusals=_number(read_kernel(group / "memory.failcnt")),
    )


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _limit(text: str) -> int | None:
    """None: no limit, or none that is told."""
    found = _number(text)
    return None if found is None or found >= NO_LIMIT_BYTES else found
