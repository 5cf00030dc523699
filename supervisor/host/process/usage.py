"""The resource use of the process tree of an attempt.

What belongs to an attempt stays in it, also when its parent has ended.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from supervisor.core.metrics.machine_state import TreeUse
from supervisor.host.process.cgroup import read_memory
from supervisor.host.process.process_tree import ProcessTree

PROPORTIONAL_SECONDS = 60.0
"""From one look at proportional memory to the next, at least: the kernel walks every
page for it, and holds the lock that the process's own mappings need."""
UNCHANGED_SECONDS = 600.0
"""... as long as resident memory is about what it was then."""
CHANGED = 0.05
"""Beyond this part of it, resident memory is not what it was."""
PROPORTIONAL_SHARE = 1e-4
"""Of the time may be spent on it."""


def open_files(pid: int) -> int | None:
    """None: it is gone, or somebody else's."""
    try:
        return psutil.Process(pid).num_fds()
    except (psutil.Error, OSError):
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
        known = self.size_bytes is not None
        alike = known and changed <= CHANGED * self.resident_bytes
        return now >= self.next_at and (not alike or now - self.at >= UNCHANGED_SECONDS)


@dataclass(slots=True)
class _Tree:
    """One attempt."""

    root: int
    members: dict[int, int | None] = field(default_factory=dict[int, int | None])
    """When each started, in clock ticks, by its pid; None: not known yet."""
    cpu: float = 0.0
    """The most that was seen: of this attempt alone. What attempts before it used could
    only be told by who has watched them, and would be lost with the daemon."""
    proportional: Proportional | None = None


class UsageReader:
    """The processes of every run that is watched."""

    def __init__(self, population: ProcessTree | None = None) -> None:
        """``population``: where others ask for the processes of the machine, too."""
        self._population = population or ProcessTree()
        self._trees: dict[str, _Tree] = {}

    def look(self, roots: Mapping[str, int], *, now: float) -> dict[str, TreeUse]:
        """What each run uses; ``roots``: the training process of each that has one."""
        if self._keep(roots):
            self._population.count(now=now)  # somebody may be its child already
        used = {run: self._use(tree, now=now) for run, tree in self._trees.items()}
        return {run: use for run, use in used.items() if use is not None}

    def owners(self) -> dict[int, str]:
        """The run of each process."""
        return {pid: run for run, tree in self._trees.items() for pid in tree.members}

    def _keep(self, roots: Mapping[str, int]) -> bool:
        """Forget what ended; begin anew with what is new: whether anything is."""
        new = False
        for run in self._trees.keys() - roots.keys():
            self._trees[run].members.clear()
        for run, root in roots.items():
            tree = self._trees.get(run)
            if tree is None or tree.root != root:
                tree = self._trees[run] = _Tree(root=root)
                new = True
            tree.members.setdefault(root, None)
        return new

    def forget(self, runs: Mapping[str, object]) -> None:
        """Drop what is known of every run that is not in ``runs``."""
        for run in self._trees.keys() - runs.keys():
            del self._trees[run]

    def _use(self, tree: _Tree, *, now: float) -> TreeUse | None:
        living = self._population.families(tree.members, now=now)
        tree.members = {pid: stat.started_ticks for pid, stat in living.items()}
        if not living:
            return None
        # What a process that ended had used is its parent's now, unless nobody waited.
        spent = (one.cpu_seconds + one.ended_cpu_seconds for one in living.values())
        tree.cpu = max(tree.cpu, sum(spent))
        files = [open_files(pid) for pid in living]
        known = [count for count in files if count is not None]
        resident = sum(stat.resident_bytes for stat in living.values())
        last = tree.proportional
        if last is None or last.is_due(resident_bytes=resident, now=now):
            last = tree.proportional = _proportional(living, resident, now=now)
        return TreeUse(
            resident_bytes=resident,
            proportional_bytes=last.size_bytes,
            cpu_seconds=tree.cpu,
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
        size = sum(psutil.Process(pid).memory_full_info().pss for pid in living)
    except (psutil.Error, OSError):
        size = None
    cost = time.monotonic() - began
    return Proportional(
        size_bytes=size,
        resident_bytes=resident_bytes,
        at=now,
        next_at=now + max(PROPORTIONAL_SECONDS, cost / PROPORTIONAL_SHARE),
    )
