"""Measuring the host: processes, cgroups and disks, in a thread of its own.

A file system that hangs, hangs this thread: what it measured last grows old, its
collector reports failure, and nobody waits.
"""

import contextlib
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.core.metrics.machine_state import Collector, Space, TreeUse
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.process.usage import UsageReader
from supervisor.host.service.clock import Clock

INTERVAL_SECONDS = 5.0
"""Between two rounds; a new training process is looked at at once."""
STALE_SECONDS = 20.0
"""What was measured longer ago is no longer what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What was measured last."""

    taken: float | None = None
    """Monotonic seconds; None: nothing yet."""
    seconds: float | None = None
    owners: Mapping[int, str] = field(default_factory=dict[int, str])
    trees: Mapping[str, TreeUse] = field(default_factory=dict[str, TreeUse])
    spaces: Mapping[str, Space] = field(default_factory=dict[str, Space])

    def collector(self, now: float) -> Collector:
        """How the last round went."""
        fresh = self.taken is not None and now - self.taken <= STALE_SECONDS
        return Collector(success=fresh, seconds=self.seconds)


def read_space(path: Path) -> Space | None:
    """The file system that ``path`` lies on; None: it cannot be asked."""
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return None
    return Space(found.total, found.free)


class HostCollector:
    """Measures from ``start`` to ``close``."""

    def __init__(
        self,
        places: Mapping[str, Path],
        *,
        clock: Clock | None = None,
        interval_seconds: float = INTERVAL_SECONDS,
        population: ProcessTree | None = None,
    ) -> None:
        """``places``: a path on each file system, by its name in the metrics.
        ``population``: where others ask for the processes of the machine, too."""
        self._places = dict(places)
        self._clock = clock or Clock()
        self._interval = interval_seconds
        self._roots: Mapping[str, int] = {}
        self._runs: Mapping[str, object] = {}
        self._trees = UsageReader(population)
        self._view = HostView()
        self._due = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="host", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop; a thread that hangs in a file system is left behind."""
        self._closing.set()
        self._due.set()
        self._thread.join(timeout=5.0)

    def watch(self, roots: Mapping[str, int | None]) -> None:
        """The training process of each run from now on; None: it has none."""
        self._runs = dict(roots)
        living = {run: pid for run, pid in roots.items() if pid is not None}
        if living != self._roots:
            self._roots = living
            self._due.set()

    def latest(self) -> HostView:
        """What was measured last; never waits."""
        return self._view

    def _work(self) -> None:
        while not self._closing.is_set():
            self._due.clear()
            with contextlib.suppress(OSError):  # too many open files, say: it grows old
                self._view = self.measure()
            self._due.wait(self._interval)

    def measure(self) -> HostView:
        """One round."""
        began = self._clock.now()
        self._trees.forget(self._runs)
        trees = self._trees.look(self._roots, now=began)
        spaces = {name: read_space(path) for name, path in self._places.items()}
        ended = self._clock.now()
        return HostView(
            taken=ended,
            seconds=ended - began,
            owners=self._trees.owners(),
            trees=trees,
            spaces={name: one for name, one in spaces.items() if one is not None},
        )
