"""The allocator at step boundaries, on the page: seldom enough to cost nothing.

A reading costs some hundred microseconds, so it is done twice a second at most. To see a
leak that is faster than that, what is in use is glanced at, which is quicker, and added to
the readings of the page as soon as it has moved by a hundredth of the limit: a leak leaves
as many of them behind whatever its pace.
"""

import functools
import math
import time
from collections import deque
from dataclasses import replace
from typing import Protocol

from supervisor.wire.readings import RECENT, AllocatorReading, pack
from trainers.backends.memory.allocator_figures import Figures, MemoryMark
from trainers.backends.memory.oom_pause import OomPause
from trainers.process.attempt_reporting import Attempt

SHARE = 0.0004
"""Part of the time that readings may take, of the thousandth that is promised, ..."""

GLANCES = 0.0002
"""... glances at what is in use, ..."""

QUICK = 0.0002
"""... and quick readings. What is left is for hiccups of the machine."""

FEWEST_COSTS = 3
"""The first readings take longer, and say nothing about those that follow."""

LEAST_SECONDS = 0.5
"""Readings are no closer than this, however little one costs."""

MOVED = 0.01
"""A quick reading is due when so much of the limit was taken or given back."""

SAVED_SECONDS = 0.02
"""There is so much time for them at once: enough for some hundred, in a hurry."""


class AllocatorReader(Protocol):
    """The allocator of one framework."""

    @property
    def glance_seconds(self) -> float:
        """``counts`` takes no longer, on a machine not busy with something else."""

    def begin(self) -> bool:
        """Let the peak start again, where that can be done; whether there is anything to
        see."""

    def read(self) -> Figures | None:
        """The allocator now; None: it keeps no figures, or the device is in trouble,
        which is the next step's to say."""

    def counts(self) -> tuple[int, int] | None:
        """Bytes in use, and the peak; None: as above."""


@functools.cache
def _pause_of(attempt: Attempt) -> OomPause:
    """One for all calls of ``fit``, as a script may make many."""
    return OomPause(lambda: attempt.drain_requested, answers=attempt.directive.foresee)


class PacedProbe:
    """Reads an allocator for the page."""

    def __init__(
        self, attempt: Attempt, reader: AllocatorReader, *, limit_bytes: int | None
    ) -> None:
        """``limit_bytes``: what the supervisor set, if it did."""
        self._attempt = attempt
        self._reader = reader
        self._limit = limit_bytes
        self._due = 0.0
        self.glance_due = 0.0
        """When to glance next, by ``time.perf_counter``: asked after each step."""
        self._saved, self._saved_at = SAVED_SECONDS, time.perf_counter()
        self._costs: deque[float] = deque(maxlen=5)
        self._recent: deque[AllocatorReading] = deque(maxlen=RECENT)
        self._step_bytes = 0
        self._oom_pause = _pause_of(attempt)
        self._largest_request = 0
        self._most_between = 0
        self._limit_read: int | None = None

    def begin(self) -> None:
        """Memory is that of steps from here on."""
        self.forget()
        if not self._reader.begin():
            self.glance_due = math.inf  # there is nothing to see

    def forget(self) -> None:
        """Steps are others from here on: what the largest request was is over."""
        self._largest_request = 0
        self._step_bytes = 0
        self._recent.clear()

    def mark(self) -> MemoryMark | None:
        """What is in use now; None: nothing tells, or no reading was taken yet."""
        limit = self._limit_read
        counted = None if limit is None else self._reader.counts()
        if counted is None or limit is None:
            return None
        in_use, peak = counted
        most, self._most_between = self._most_between, 0
        return MemoryMark(in_use=in_use, peak=peak, most_between=most, limit=limit)

    def limit(self) -> int | None:
        """What was set, else what the allocator has; None: not known (yet)."""
        if self._limit is not None:
            return self._limit
        found = self._reader.read()
        return None if found is None else found.limit

    def due(self, now: float) -> bool:
        """Whether it is time for a reading; ``now`` by ``time.perf_counter``."""
        return now >= self._due

    def glance(self, now: float, *, step: int) -> None:
        """A quick reading, if memory in use has moved since the last of any kind."""
        limit = self._recent[-1].limit if self._recent else None
        counted = None if limit is None else self._reader.counts()
        if counted is None or limit is None:
            return
        in_use, peak = counted
        ended = time.perf_counter()
        # What it takes beyond that is a hiccup.
        cost = min(ended - now, self._reader.glance_seconds)
        self.glance_due = now + cost / GLANCES
        moved = abs(in_use - self._recent[-1].in_use)
        if moved >= MOVED * limit and self._affordable(now):
            self._remember(
                AllocatorReading(
                    ns=time.monotonic_ns(),
                    step=step,
                    in_use=in_use,
                    peak=peak,
                    limit=limit,
                )
            )
            self._attempt.set(memory_recent=pack(tuple(self._recent)))
            self._saved -= time.perf_counter() - ended
            if self._oom_pause.stand(self._recent, step_bytes=self._step_bytes):
                self.look(step=step)  # who holds what may have been asked meanwhile

    def _affordable(self, now: float) -> bool:
        """Whether there is time left for a quick reading."""
        self._saved = min(self._saved + QUICK * (now - self._saved_at), SAVED_SECONDS)
        self._saved_at = now
        return self._saved > 0

    def look(self, *, step: int) -> Figures | None:
        """Read and publish; None: this allocator keeps no figures."""
        began = time.perf_counter()
        reading = self.read()
        if reading is not None:
            self._publish(reading, step)
        self._costs.append(time.perf_counter() - began)
        self._due = began + self._pause()
        self._oom_pause.stand(self._recent, step_bytes=self._step_bytes)
        return reading

    def _pause(self) -> float:
        """Seconds to the next reading, by what one takes most often: a busy machine
        may hold a single one up for long."""
        if len(self._costs) < FEWEST_COSTS:
            return LEAST_SECONDS
        usual = sorted(self._costs)[len(self._costs) // 2]
        return max(LEAST_SECONDS, usual / SHARE)

    def read(self) -> Figures | None:
        """The allocator now, by the best source there is."""
        found = self._reader.read()
        if found is None:
            return None
        self._largest_request = max(self._largest_request, found.largest_request or 0)
        return replace(
            found,
            limit=found.limit or self._limit,
            largest_request=self._largest_request or None,
        )

    def _remember(self, newest: AllocatorReading) -> None:
        """Among the newest; and what a step needs beyond what was there before it."""
        before = self._recent[-1] if self._recent else None
        if before is None or newest.peak > before.peak:
            kept = max(newest.in_use, 0 if before is None else before.in_use)
            self._step_bytes = max(self._step_bytes, newest.peak - kept)
        self._most_between = max(self._most_between, newest.in_use)
        self._limit_read = newest.limit
        self._recent.append(newest)

    def _publish(self, reading: Figures, step: int) -> None:
        newest = AllocatorReading(
            ns=time.monotonic_ns(),
            step=step,
            in_use=reading.in_use,
            peak=reading.peak,
            limit=reading.limit,
            largest_allocatable=reading.largest_allocatable,
            largest_request=reading.largest_request,
        )
        self._remember(newest)
        self._attempt.set(
            memory_limit_bytes=reading.limit,
            memory_pool_bytes=reading.pool,
            memory_in_use_bytes=reading.in_use,
            memory_peak_bytes=reading.peak,
            memory_largest_free_bytes=reading.largest_free,
            memory_largest_allocatable_bytes=reading.largest_allocatable,
            memory_largest_request_bytes=reading.largest_request,
            memory_chunks=reading.chunks,
            memory_fragmentation=reading.fragmentation,
            memory_source=int(reading.source),
            memory_step=step,
            memory_ns=newest.ns,
            memory_recent=pack(tuple(self._recent)),
        )
