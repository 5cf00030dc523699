"""How often the kernel's OOM killer struck in a cgroup, versions 1 and 2.

Documentation: Linux ``admin-guide/cgroup-v2.rst`` (``memory.events``: ``oom_kill``)
and ``admin-guide/cgroup-v1/memory.rst`` (``memory.oom_control``).
"""

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def oom_kills(pid: int | str = "self", *, root: Path = ROOT) -> int | None:
    """OOM kills counted in the memory cgroup of ``pid`` so far; None: not readable."""
    try:
        membership = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    for path in event_files(membership, root=root):
        try:
            count = parse_oom_kills(path.read_text())
        except OSError:
            continue
        if count is not None:
            return count
    return None


def event_files(membership: str, *, root: Path) -> list[Path]:
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
    return files


def parse_oom_kills(text: str) -> int | None:
    """The count after ``oom_kill``; None where there is no such line."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return None


def counted_since(before: int | None) -> int | None:
    """OOM kills in our own cgroup since it counted ``before``; None: not known."""
    now = oom_kills()
    return None if before is None or now is None else max(now - before, 0)
