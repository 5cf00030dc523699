"""Who came of whom, on the whole machine.

The kernel lists the children of each thread (proc(5)), and on a large machine a framework
has hundreds of threads: to ask all of them, for every run, held up the loop for
milliseconds. Here every process is asked for its parent, once, when it is new, and for all
runs together.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.host.proc import PROC, Stat, stat

FRESH_SECONDS = 1.0
"""Who was there so long ago at most is who is there: runs are looked at together."""


@dataclass(slots=True)
class Population:
    """The processes of the machine."""

    _parents: dict[int, int] = field(default_factory=dict[int, int])
    _children: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _counted_at: float | None = None

    def families(
        self, roots: Mapping[int, int | None], *, now: float
    ) -> dict[int, Stat]:
        """Those of ``roots`` that live, and all that came of them, as they are now.

        ``roots``: when each started (ticks since boot), by its pid; None: whenever.
        ``now``: monotonic seconds. What happens meanwhile may be missed: who asks again
        finds it then. Whose parent has ended is somebody else's child (of init, or of a
        subreaper: prctl(2)); who is to be kept in sight then must be asked for.
        """
        if self._counted_at is None or now - self._counted_at >= FRESH_SECONDS:
            self._count()
            self._counted_at = now
        found: dict[int, Stat] = {}
        for root, started in roots.items():
            one = stat(root)
            if one is not None and started in {None, one.started_ticks}:
                self._add(root, one, found)
        return found

    def _add(self, pid: int, seen: Stat, found: dict[int, Stat]) -> None:
        waiting = [(pid, seen)]
        while waiting:
            pid, seen = waiting.pop()
            if pid in found:
                continue
            found[pid] = seen
            for child in self._children.get(pid, ()):
                known = stat(child)
                # Pids come back: a child is who says so itself.
                if known is not None and known.parent == pid:
                    waiting.append((child, known))

    def _count(self) -> None:
        """Ask whoever is new, and whoever's parent has ended."""
        there = {int(name) for name in os.listdir(PROC) if name.isdigit()}  # noqa: PTH208  # many
        parents: dict[int, int] = {}
        for pid in there:
            parent = self._parents.get(pid)
            if parent is None or parent not in there:
                known = stat(pid)
                if known is None:
                    continue
                parent = known.parent
            parents[pid] = parent
        self._parents = parents
        self._children = {}
        for pid, parent in parents.items():
            self._children.setdefault(parent, []).append(pid)
