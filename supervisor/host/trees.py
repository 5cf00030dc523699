"""What the processes of an attempt use together: from ``/proc`` (proc(5)).

Every process of the machine is looked at once, when it is new: whose child is it? What
belongs to an attempt stays in it, also when its parent has ended. Each later look reads
only what belongs to attempts.
"""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.core.machine import TreeUse
from supervisor.host.cgroup import read_memory
from supervisor.host.kernel_files import read_kernel

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
PROPORTIONAL_SECONDS = 60.0
"""From one look at proportional memory to the next, at least: the kernel walks every
page for it, and holds the lock that the process's own mappings need."""
UNCHANGED_SECONDS = 600.0
"""... as long as resident memory is about what it was then."""
CHANGED = 0.05
"""Beyond this part of it, resident memory is not what it was."""
PROPORTIONAL_SHARE = 1e-4
"""Of the time may be spent on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Of ``/proc/PID/stat``."""

    parent: int
    started: int
    """In clock ticks since boot: with the pid, which process this is."""
    cpu_seconds: float
    """Its own and that of its children that ended and were waited for."""
    threads: int
    resident_bytes: int


def parse_stat(text: str) -> Stat | None:
    """What stands in ``/proc/PID/stat``; None: nothing whole."""
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    try:
        ticks = sum(int(field) for field in fields[11:15])
        return Stat(
            parent=int(fields[1]),
            started=int(fields[19]),
            cpu_seconds=ticks / TICKS,
            threads=int(fields[17]),
            resident_bytes=int(fields[21]) * PAGE_BYTES,
        )
    except (IndexError, ValueError):
        return None


def read_stat(pid: int) -> Stat | None:
    """Of a process that is there; None: it is gone."""
    return parse_stat(read_kernel(f"{PROC}/{pid}/stat"))


def open_files(pid: int) -> int | None:
    """None: it is gone, or somebody else's."""
    try:
        return len(os.listdir(f"{PROC}/{pid}/fd"))  # noqa: PTH208  # counted, not used
    except OSError:
        return None


def parse_proportional(text: str) -> int | None:
    """Bytes after ``Pss:`` in ``smaps_rollup``; None: there is no such line."""
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportional:
    """A look at proportional memory. Times are monotonic seconds."""

    size_bytes: int | None
    """None: the kernel does not say."""
    resident_bytes: int
    """At that time."""
    at: float
    next_at: float
    """Not before that again, for what it costs."""

    def is_due(self, *, resident_bytes: int, now: float) -> bool:
        """Whether to look again."""
        changed = abs(resident_bytes - self.resident_bytes)
        alike = changed <= CHANGED * self.resident_bytes
        return now >= self.next_at and (not alike or now - self.at >= UNCHANGED_SECONDS)


@dataclass(slots=True)
class _Tree:
    """One attempt."""

    root: int
    members: dict[int, int] = field(default_factory=dict[int, int])
    """When each started, by its pid."""
    cpu_before: float = 0.0
    """Of attempts before this one."""
    cpu: float = 0.0
    proportional: Proportional | None = None


class Trees:
    """The processes of every run that is watched."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._trees: dict[str, _Tree] = {}

    def look(self, roots: Mapping[str, int], *, now: float) -> dict[str, TreeUse]:
        """What each run uses; ``roots``: the training process of each that has one."""
        self._keep(roots)
        self._find()
        used = {run: self._use(tree, now=now) for run, tree in self._trees.items()}
        return {run: use for run, use in used.items() if use is not None}

    def owners(self) -> dict[int, str]:
        """The run of each process."""
        return {pid: run for run, tree in self._trees.items() for pid in tree.members}

    def _keep(self, roots: Mapping[str, int]) -> None:
        """Forget what ended; begin anew with what is new."""
        for run in self._trees.keys() - roots.keys():
            self._trees[run].members.clear()
        for run, root in roots.items():
            tree = self._trees.get(run)
            if tree is None or tree.root != root:
                before = 0.0 if tree is None else tree.cpu_before + tree.cpu
                self._trees[run] = _Tree(root=root, cpu_before=before)
                self._seen.clear()  # somebody may be its child already

    def forget(self, runs: Mapping[str, object]) -> None:
        """Drop what is known of every run that is not in ``runs``."""
        for run in self._trees.keys() - runs.keys():
            del self._trees[run]

    def _find(self) -> None:
        """Look at every process that was not there before."""
        there = {int(name) for name in os.listdir(PROC) if name.isdigit()}  # noqa: PTH208
        new = there - self._seen
        stats = {pid: stat for pid in new if (stat := read_stat(pid)) is not None}
        self._seen = there
        for tree in self._trees.values():
            root = stats.get(tree.root)
            if root is not None:
                tree.members[tree.root] = root.started
            self._adopt(tree, stats)

    def _adopt(self, tree: _Tree, stats: Mapping[int, Stat]) -> None:
        grown = True
        while grown:
            children = {
                pid: stat.started
                for pid, stat in stats.items()
                if stat.parent in tree.members and pid not in tree.members
            }
            tree.members.update(children)
            grown = bool(children)

    def _use(self, tree: _Tree, *, now: float) -> TreeUse | None:
        stats = {pid: read_stat(pid) for pid in tree.members}
        living = {
            pid: stat
            for pid, stat in stats.items()
            if stat is not None and stat.started == tree.members[pid]
        }
        for pid in tree.members.keys() - living.keys():
            del tree.members[pid]
        if not living:
            return None
        # What a process that ended had used is its parent's now, unless nobody waited.
        tree.cpu = max(tree.cpu, sum(stat.cpu_seconds for stat in living.values()))
        files = [open_files(pid) for pid in living]
        known = [count for count in files if count is not None]
        resident = sum(stat.resident_bytes for stat in living.values())
        last = tree.proportional
        if last is None or last.is_due(resident_bytes=resident, now=now):
            last = tree.proportional = _proportional(living, resident, now=now)
        return TreeUse(
            resident_bytes=resident,
            proportional_bytes=last.size_bytes,
            cpu_seconds=tree.cpu_before + tree.cpu,
            processes=len(living),
            threads=sum(stat.threads for stat in living.values()),
            descriptors=sum(known) if known else None,
            cgroup=read_memory(tree.root),
        )


def _proportional(
    living: Iterable[int], resident_bytes: int, *, now: float
) -> Proportional:
    began = time.monotonic()
    try:
        texts = [(PROC / str(pid) / "smaps_rollup").read_text() for pid in living]
    except OSError:
        size = None
    else:
        size = sum(parse_proportional(text) or 0 for text in texts)
    cost = time.monotonic() - began
    return Proportional(
        size_bytes=size,
        resident_bytes=resident_bytes,
        at=now,
        next_at=now + max(PROPORTIONAL_SECONDS, cost / PROPORTIONAL_SHARE),
    )
