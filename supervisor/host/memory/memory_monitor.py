"""The memory of an attempt over time: read from its page, foreseen by the core."""

import contextlib
import math
from dataclasses import dataclass, field, replace

from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.events import Event, Exited, MemoryHigh, RestartDue
from supervisor.core.lifecycle.memory_incident import foreseen, sentence
from supervisor.core.memory.forecast import (
    Forecast,
    MemoryLevel,
    MemoryReading,
    MemoryTrends,
    Resource,
)
from supervisor.host.memory.child_memory import WorkerMemory
from supervisor.host.memory.main_memory import capacity
from supervisor.wire.page import Page, Phase
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.readings import AllocatorReading, unpack

HOST_SECONDS = 0.9
"""How often main memory of the training process is looked at, at the most: at each look
that comes a second after the one before, or about."""
ROOM_SECONDS = 5.0
"""... and what it may grow to, as long as it is far from that."""
FAR = 0.5
"""Up to this part of what it may grow to it is far from that."""
FORECAST_SECONDS = 20.0
"""How often a forecast is made while nothing is nearly full."""
NEARLY = 0.8
"""From this part of a capacity on there is one at each reading."""

STEPPING = frozenset({Phase.TRAINING, Phase.REPLAYING, Phase.VALIDATING})
"""Before, memory grows because training is being set up."""


@dataclass(slots=True)
class MemoryMonitor:
    """One run's memory. All times are monotonic seconds."""

    restart_below: float | None
    """Seconds left below which a restart is planned; None: never."""
    warn_at: float | None
    """Part of a capacity beyond which there is a warning; None: never."""
    host_limit: int | None
    forecasts: list[Forecast] = field(default_factory=list[Forecast])
    calm: bool = False
    """Training goes on, and no memory is anywhere near its end: as last looked at."""
    _attempt: int = 0
    _watch: MemoryTrends = field(default_factory=MemoryTrends)
    _slices: tuple[int | None, int | None] = (None, None)
    _first_step: int | None = None
    _device_ns: int | None = None
    _recent_ns: int = 0
    _host_at: float = -math.inf
    _workers: WorkerMemory = field(default_factory=WorkerMemory)
    _room_at: float = -math.inf
    _room: int | None = None
    """What main memory may grow to, as last looked at; None: not known."""
    _forecast_at: float = 0.0
    _warned: set[Resource] = field(default_factory=set[Resource])

    @classmethod
    def of(cls, spec: Spec) -> "MemoryMonitor":
        """As the spec asks for."""
        return cls(
            restart_below=spec.forecast.restart_below,
            warn_at=spec.forecast.warn_at,
            host_limit=spec.memory.host,
        )

    def look(
        self,
        *,
        attempt: int,
        pid: int | None,
        page: Page | None,
        now: float,
        tree: frozenset[int] = frozenset(),
    ) -> list[Event]:
        """Take in the newest page; what follows from it.

        ``tree``: the processes of training, such as workers that read its data.
        """
        if attempt != self._attempt:
            self._begin(attempt)
        self.calm = False
        if page is None or page.step is None or page.phase not in STEPPING:
            return []
        if self._first_step is None:
            self._first_step = page.step
        readings = self._of_allocator(page, now) + self._of_host(page, pid, tree, now)
        for reading in readings:
            self._watch = self._watch.and_then(reading)
        self.calm = self._watch.settled(FAR)
        warnings = [
            one for reading in readings for one in self._warnings(page, reading)
        ]
        return [*warnings, *self._restarts(page, readings)]

    def glance(self, page: Page) -> None:
        """See between two looks whether all is still calm."""
        if not self.calm:
            return
        recent = unpack(page.memory_recent, after_ns=self._recent_ns)
        limit = page.memory_limit_bytes
        newest = _of_page(page, 0.0)
        if recent:
            newest = _of_recent(recent[-1], recent[-1].ns, 0.0, limit=limit)
        reading = replace(newest, rss=page.host_rss_bytes, host_limit=self._room)
        levels = reading.levels(step_bytes=self._watch.step_bytes)
        self.calm = all(level.part < FAR for level in levels.values())

    def _begin(self, attempt: int) -> None:
        self._attempt, self._watch, self.forecasts = attempt, MemoryTrends(), []
        self._first_step, self._device_ns, self._recent_ns = None, None, 0
        self._workers = WorkerMemory()
        self._room_at = -math.inf

    def _of_allocator(self, page: Page, now: float) -> list[MemoryReading]:
        """What is new since the last look, oldest first."""
        readings: list[MemoryReading] = []
        if page.memory_ns is not None and page.memory_ns != self._device_ns:
            self._forget_if_sliced_anew(page)
            self._device_ns = page.memory_ns
            if not any(page.memory_recent):
                readings.append(_of_page(page, now))
        recent = unpack(page.memory_recent, after_ns=self._recent_ns)
        if recent:
            self._recent_ns = recent[-1].ns
            readings += [
                _of_recent(one, self._recent_ns, now, limit=page.memory_limit_bytes)
                for one in recent
            ]
        return readings

    def _of_host(
        self, page: Page, pid: int | None, tree: frozenset[int], now: float
    ) -> list[MemoryReading]:
        """Main memory of training and of what it has started, now and then."""
        rss = page.host_rss_bytes
        if pid is None or rss is None or now - self._host_at < HOST_SECONDS:
            return []
        self._host_at = now
        workers = self._workers.of(tree - {pid}, now=now)
        if workers is None:
            return []  # a sum without them would seem to grow when they are known
        held = rss + workers
        if self._room_is_due(held, now):
            self._room_at = now
            self._room = capacity(pid, rss=held, limit=self.host_limit)
        return [
            MemoryReading(at=now, step=page.step or 0, rss=held, host_limit=self._room)
        ]

    def _room_is_due(self, held: int, now: float) -> bool:
        """What training takes is no longer available, so what it may grow to stays as
        it is, unless others take some: that is looked at seldom while it is far away."""
        far = self._room is not None and held < FAR * self._room
        return not far or now - self._room_at >= ROOM_SECONDS

    def _forget_if_sliced_anew(self, page: Page) -> None:
        """Slices of another size need other memory: that is no trend."""
        sliced = (page.slices, page.slice_size)
        if sliced != self._slices:
            self._slices = sliced
            self._watch = self._watch.only(Resource.HOST)

    def _warnings(self, page: Page, reading: MemoryReading) -> list[Event]:
        found: list[Event] = []
        for resource, level in self._levels(page, reading):
            high = self.warn_at is not None and level.part >= self.warn_at
            if high and resource not in self._warned:
                self._warned.add(resource)
                found.append(MemoryHigh(resource, level, page.step))
        return found

    def _levels(
        self, page: Page, reading: MemoryReading
    ) -> list[tuple[Resource, MemoryLevel]]:
        """What warnings are about: the peak, against the limit.

        Not of slices that were planned: they are chosen so that they nearly fill it.
        """
        levels: list[tuple[Resource, MemoryLevel]] = []
        if reading.peak is not None and reading.limit and (page.slices or 1) == 1:
            peak = MemoryLevel(used=reading.peak, capacity=reading.limit)
            levels.append((Resource.DEVICE, peak))
        if reading.rss is not None and reading.host_limit:
            host = MemoryLevel(used=reading.rss, capacity=reading.host_limit)
            levels.append((Resource.HOST, host))
        return levels

    def _restarts(self, page: Page, readings: list[MemoryReading]) -> list[Event]:
        if not readings:
            return []
        at = readings[-1].at
        if not self._watch.nearly(NEARLY) and at - self._forecast_at < FORECAST_SECONDS:
            return []
        self._forecast_at = at
        self.forecasts = self._watch.forecasts()
        if self.restart_below is None or page.step == self._first_step:
            return []  # without a step of its own it would start again where it was
        for forecast in self.forecasts:
            if forecast.imminent(self.restart_below):
                return [RestartDue(sentence(forecast), foreseen(forecast))]
        return []

    def close(self, exited: Exited) -> Exited:
        """The end of an attempt, with how its memory had grown."""
        self.forecasts = self._watch.forecasts()
        found = replace(exited.evidence.memory, forecasts=tuple(self.forecasts))
        return replace(exited, evidence=replace(exited.evidence, memory=found))

    @property
    def host_seconds_left(self) -> float | None:
        """Until main memory runs out; None: it does not grow, as far as one can tell."""
        return self.seconds_left().get(Resource.HOST.value)

    def seconds_left(self) -> dict[str, float]:
        """Until each resource runs out, of those that grow."""
        return {
            forecast.resource.value: forecast.seconds
            for forecast in self.forecasts
            if forecast.seconds is not None
        }


def _of_recent(
    one: AllocatorReading, newest_ns: int, now: float, *, limit: int | None
) -> MemoryReading:
    """One of those on the page, the newest of which is of now; ``limit``: where training
    itself knows of none."""
    return MemoryReading(
        at=now - (newest_ns - one.ns) / 1e9,
        step=one.step,
        in_use=one.in_use,
        peak=one.peak,
        limit=limit if one.limit is None else one.limit,
        largest_allocatable=one.largest_allocatable,
        largest_request=one.largest_request,
    )


def _of_page(page: Page, now: float) -> MemoryReading:
    """The newest alone."""
    return MemoryReading(
        at=now,
        step=page.memory_step or page.step or 0,
        in_use=page.memory_in_use_bytes,
        peak=page.memory_peak_bytes,
        limit=page.memory_limit_bytes,
        largest_allocatable=page.memory_largest_allocatable_bytes,
        largest_request=page.memory_largest_request_bytes,
    )


def ask_who_holds(files: AttemptPaths) -> None:
    """Let training say at its next step who holds what, also when that is its last.

    Where its directory belongs to somebody else the autopsy goes without.
    """
    with contextlib.suppress(OSError):
        files.memory_request.touch(mode=0o600)
