"""Main memory of the processes that training has started, measured beside the loop.

What a worker shares with the process that forked it counts once, so the kernel has to
walk its pages (``smaps_rollup``, proc(5)): tens of milliseconds for a few workers of a
process of some gigabytes, and for ever where one hangs with its mappings locked. Nobody
waits for that here.
"""

import threading
import time
from dataclasses import dataclass

from supervisor.host.memory.main_memory import private_bytes

LEAST_SECONDS = 5.0
"""From one measurement to the next, at least ..."""
SHARE = 2e-3
"""... and so long that measuring takes no more than this part of the time ..."""
MOST_SECONDS = 60.0
"""... but not longer: a leak is to be seen before memory is out."""


def seconds_between(cost: float) -> float:
    """From a measurement that took ``cost`` seconds to the next."""
    return min(max(LEAST_SECONDS, cost / SHARE), MOST_SECONDS)


@dataclass(frozen=True, slots=True)
class _Measured:
    size_bytes: int
    pids: frozenset[int]
    at: float
    next_at: float

    def is_due(self, pids: frozenset[int], *, now: float) -> bool:
        """Whether to measure again: sooner where they are others."""
        others = pids != self.pids and now >= self.at + LEAST_SECONDS
        return others or now >= self.next_at


class WorkerMemory:
    """Of one attempt."""

    def __init__(self) -> None:
        self._measured: _Measured | None = None
        self._thread: threading.Thread | None = None

    def of(self, pids: frozenset[int], *, now: float) -> int | None:
        """What ``pids`` hold that no other process shares, in bytes, as last measured;
        None: not known yet. Never waits. ``now``: monotonic seconds."""
        if not pids:
            return 0
        known = self._measured
        due = known is None or known.is_due(pids, now=now)
        if due and not self._is_measuring():
            self._thread = threading.Thread(
                target=self._measure,
                args=(pids, now),
                name="worker-memory",
                daemon=True,
            )
            self._thread.start()
        return None if known is None else known.size_bytes

    def _is_measuring(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _measure(self, pids: frozenset[int], now: float) -> None:
        began = time.monotonic()
        size = private_bytes(pids)
        cost = time.monotonic() - began
        self._measured = _Measured(size, pids, now, now + seconds_between(cost))
