"""Memory cgroups, versions 1 and 2: what is charged, and how often the OOM killer struck.

Documentation: Linux ``admin-guide/cgroup-v2.rst`` (``memory.current``, ``memory.max``,
``memory.events``) and ``admin-guide/cgroup-v1/memory.rst`` (``memory.usage_in_bytes``,
``memory.limit_in_bytes``, ``memory.failcnt``, ``memory.oom_control``).
"""

from functools import lru_cache
from pathlib import Path

from supervisor.core.metrics.machine_state import CgroupMemory
from supervisor.host.process.proc_files import read_kernel

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


def is_in_group(pid: int, group: str) -> bool:
    """Whether ``pid`` is in ``group``, a path as systemd writes it, or below it. (A
    container sees its own as the root, or with its host's path before it.)"""
    for line in read_kernel(f"/proc/{pid}/cgroup").splitlines():
        path = line.split(":", 2)[-1]
        if f"{group}/" in f"{path}/":
            return True
    return False


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


def kills_between(before: int | None, now: int | None) -> int | None:
    """OOM kills between two counts; None: not known."""
    return None if before is None or now is None else max(now - before, 0)


NO_LIMIT_BYTES = 2**62
"""Version 1 writes the largest multiple of a page where there is no limit."""


_FIGURES = {
    "memory.events": ("memory.current", "memory.max"),
    "memory.oom_control": ("memory.usage_in_bytes", "memory.limit_in_bytes"),
}
"""Where the use and the limit of a group stand, beside its ``event_files``."""


def used_and_limit(events: Path) -> tuple[int | None, int | None]:
    """Of the group that counts its events there, in bytes. None: not told, no limit."""
    used, limit = (
        _number(read_kernel(events.with_name(name))) for name in _FIGURES[events.name]
    )
    return used, None if limit is None or limit >= NO_LIMIT_BYTES else limit


def read_memory(pid: int, *, root: Path = ROOT) -> CgroupMemory | None:
    """The memory cgroup of ``pid``; None: there is none that can be read."""
    for events in event_files(read_kernel(f"/proc/{pid}/cgroup"), root=root):
        used, limit = used_and_limit(events)
        if used is None:
            continue
        text, failures = read_kernel(events), events.with_name("memory.failcnt")
        second = events.name == "memory.events"
        return CgroupMemory(
            used_bytes=used,
            limit_bytes=limit,
            oom_kills=parse_oom_kills(text),
            refusals=parse_field(text, "max")
            if second
            else _number(read_kernel(failures)),
        )
    return None


def _number(text: str) -> int | None:
    """None for "max", too: that is no limit."""
    return int(text) if text.strip().isdigit() else None
