"""The process tree of the machine: who came of whom.

The kernel lists the children of each thread (proc(5)), and on a large machine a framework
has hundreds of threads: to ask all of them, for every run, held up the loop for
milliseconds. Here every process is asked for its parent when it is new, and seldom after
that, for all runs together: a sixth of what psutil's ``children`` costs for one
(``make bench-processes``).
"""

import contextlib
import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from supervisor.host.process.marker_scan import MarkerScan
from supervisor.host.process.proc_files import PROC, Stat, stat

FRESH_SECONDS = 1.0
"""Who was there so long ago at most is who is there: runs are looked at together."""
STALE_SECONDS = 60.0
"""What is known since longer ago is asked again: pids come back."""
PARTS = 12
"""At each count one of so many parts is asked again, whoever it was."""


@dataclass(slots=True)
class ProcessTree:
    """The processes of the machine; for any number of threads."""

    environments: MarkerScan = field(default_factory=MarkerScan)
    """For the loop's thread alone."""
    _parents: dict[int, int] = field(default_factory=dict[int, int])
    _children: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _counted_at: float = -math.inf
    _counts: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def families(
        self, roots: Mapping[int, int | None], *, now: float
    ) -> dict[int, Stat]:
        """Those of ``roots`` that live, and all that came of them, as they are now.

        ``roots``: when each started (ticks since boot), by its pid; None: whenever.
        ``now``: monotonic seconds. What happens meanwhile may be missed: who asks again
        finds it then. Whose parent has ended is somebody else's child (of init, or of a
        subreaper: prctl(2)); who is to be kept in sight then must be asked for.
        """
        fresh = now - self._counted_at < FRESH_SECONDS
        if not fresh or not self._parents.keys() >= roots.keys():
            with contextlib.suppress(OSError):  # who was there before is known
                self.count(now=now)
        children = self._children
        found: dict[int, Stat] = {}
        for root, started in roots.items():
            one = stat(root)
            if one is not None and started in {None, one.started_ticks}:
                _add(root, one, children, found)
        return found

    def count(self, *, now: float) -> None:
        """See who is there ``now``, however fresh what is known. Raises OSError."""
        with self._counting:
            if now - self._counted_at >= STALE_SECONDS:
                self._parents = {}
            self._count()
            self._counted_at = now

    def _count(self) -> None:
        """Ask whoever is new, whoever's parent has ended, and a part of the others."""
        self._counts += 1
        again = self._counts % PARTS
        there = {int(name) for name in os.listdir(PROC) if name.isdigit()}  # noqa: PTH208  # names suffice
        parents: dict[int, int] = {}
        for pid in there:
            parent = self._parents.get(pid)
            if parent is None or parent not in there or pid % PARTS == again:
                known = stat(pid)
                if known is None:
                    continue
                parent = known.parent
            parents[pid] = parent
        children: dict[int, list[int]] = {}
        for pid, parent in parents.items():
            children.setdefault(parent, []).append(pid)
        self._parents, self._children = parents, children


def _add(
    pid: int,
    seen: Stat,
    children: Mapping[int, Sequence[int]],
    found: dict[int, Stat],
) -> None:
    """Add to ``found`` the process ``pid``, and all that came of it."""
    waiting = [(pid, seen)]
    while waiting:
        pid, seen = waiting.pop()
        if pid in found:
            continue
        found[pid] = seen
        for child in children.get(pid, ()):
            known = stat(child)
            # Pids come back, and orphans have another parent: the child tells. One
            # whose parent is a zombie, say, is the subreaper's, and of the family.
            if known is not None and (known.parent == pid or known.parent in found):
                waiting.append((child, known))
