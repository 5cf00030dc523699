"""The forecast of an OOM: a robust trend, and how sure one can be of it.

The rules:

1. Readings are taken at step boundaries, where what a step needs for itself is free
   again: what grows there is kept by somebody.
2. Steps are what it is seen against, not time: a pause for a snapshot or a validation
   is no bend in a leak. How long a step takes makes seconds of them.
3. The trend is the median of the slopes between all pairs of readings (Theil-Sen:
   Theil 1950; Sen, J. Am. Stat. Assoc. 63, 1968): a third of the readings may be
   outliers (a validation, a prefetched batch) and it stays where it is.
4. Whether there is a trend at all is told by how far it rises above the scatter around
   it (the median absolute deviation), for as many readings as there are independent
   ones: neighbours resemble each other (an AR(1) process: Bayley & Hammersley 1946).
5. What counts is what still grows: the newer half of the readings, and of that the
   newest third too; or, for what began late, half of that half, and so on.
6. A level that was reached before, and left again, is none to be afraid of: lists that
   are emptied after each epoch, say. Only what rises above all that was before counts.
7. A restart is planned only close to the end: a forecast costs nothing by waiting, and
   most growth settles.
"""

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from supervisor.core.memory.trend import slope_of, trend_of

KEPT = 96
"""Readings kept of a series: with more, of the older the lower of each two is dropped."""
FEWEST = 8
"""Readings in the newer half below which nothing is said."""
ENOUGH = 2 * FEWEST
"""Readings below which nothing is said."""
MOST = 32
"""Readings that a trend is computed from: 496 pairs take 0.2 ms."""
SURE = 0.999
"""From this confidence on a trend is believed: it is asked for at each look."""
STILL = 0.5
"""The newest third grows at least at this part of the whole trend, or it settles."""
NEWEST = 3
"""What is used now is the median of so many readings: one may be an outlier."""
CLOSE = 0.9
"""A restart is planned from this part of the capacity on."""
RESERVE = 0.03
"""... and at the latest when what is left lasts only this part of the time that was
watched: a step may need more than those before it."""
WORTH = 0.1
"""... and if a fresh process begins with at least this part of the capacity less: what
is nearly full from the start is no better after a restart, however slowly it grows."""


class Resource(enum.StrEnum):
    """What may run out."""

    DEVICE = "device"
    """Memory that the framework's allocator may take."""
    CONTIGUOUS = "contiguous"
    """A free block large enough for the largest request."""
    HOST = "host"
    """Main memory that training may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevel:
    """One resource at one moment, in bytes."""

    used: float
    capacity: float

    @property
    def part(self) -> float:
        """Used part of the capacity; 1 where there is no capacity at all."""
        return self.used / self.capacity if self.capacity > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Memory at a step boundary, in bytes. None: not known."""

    at: float
    """Monotonic seconds."""
    step: int = 0
    """Steps done."""
    in_use: int | None = None
    """Of the framework's allocator."""
    peak: int | None = None
    limit: int | None = None
    largest_allocatable: int | None = None
    largest_request: int | None = None
    """The largest that was ever granted."""
    rss: int | None = None
    host_limit: int | None = None
    """What ``rss`` may grow to."""

    def step_bytes(self, before: "MemoryReading | None") -> int | None:
        """What a step since ``before`` needed beyond what it found; None: not known.

        Not the peak less what is in use now: what was in use then may be gone.
        """
        if self.in_use is None or self.peak is None:
            return None
        if before is None or before.peak is None or before.in_use is None:
            return max(self.peak - self.in_use, 0)
        if self.peak <= before.peak:
            return None
        return max(self.peak - max(self.in_use, before.in_use), 0)

    def levels(self, *, step_bytes: int = 0) -> dict[Resource, MemoryLevel]:
        """Every resource of which enough is known."""
        found: dict[Resource, MemoryLevel] = {}
        if self.in_use is not None and self.limit is not None:
            room = self.limit - step_bytes
            found[Resource.DEVICE] = MemoryLevel(used=self.in_use, capacity=room)
        block, asked = self.largest_allocatable, self.largest_request
        if block is not None and asked is not None and self.limit is not None:
            found[Resource.CONTIGUOUS] = MemoryLevel(
                used=self.limit - block, capacity=self.limit - asked
            )
        if self.rss is not None and self.host_limit is not None:
            found[Resource.HOST] = MemoryLevel(used=self.rss, capacity=self.host_limit)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a resource is exhausted, if it goes on like this."""

    resource: Resource
    seconds: float | None
    """None: it does not grow, as far as one can tell."""
    confidence: float
    used: float
    """Now, in bytes."""
    capacity: float
    """Bytes at which the next step fails."""
    growth: float
    """Bytes a second."""
    grown: float
    """Bytes since the first reading: what a fresh process gives back."""
    watched_seconds: float
    """How long the readings go back."""

    @property
    def part(self) -> float:
        """Used part of the capacity; 1 where there is none."""
        return MemoryLevel(used=self.used, capacity=self.capacity).part

    def imminent(self, within_seconds: float) -> bool:
        """Whether it is time for a planned restart: sure, close, soon, and worth it."""
        if self.seconds is None or self.confidence < SURE or self.part < CLOSE:
            return False
        if self.grown < WORTH * self.capacity:
            return False
        return self.seconds <= max(within_seconds, RESERVE * self.watched_seconds)


@dataclass(frozen=True, slots=True)
class Point:
    """One reading of one resource."""

    at: float
    step: int
    level: MemoryLevel


@dataclass(frozen=True, slots=True)
class Series:
    """The readings of one resource, oldest first: all of the past, thinned out."""

    points: tuple[Point, ...] = ()

    def and_then(self, point: Point) -> "Series":
        """With one more reading."""
        points = (*self.points, point)
        if len(points) > KEPT:
            half = KEPT // 2 + 1
            older = zip(points[1:half:2], points[2:half:2], strict=True)
            higher = (max(pair, key=lambda one: one.level.used) for pair in older)
            points = (points[0], *higher, *points[half:])
        return Series(points)

    def views(self) -> Iterator[list[Point]]:
        """The newer half of the steps, the newer half of that, and so on: as long as
        there are readings enough. Where they have become seldom, the newest of all."""
        points = self.points
        if len(points) < ENOUGH:
            return
        newer = _newer(points)
        yield _thinned(newer if len(newer) >= FEWEST else points[-FEWEST:])
        while FEWEST <= len(newer) < len(points):
            points, newer = newer, _newer(newer)
            if len(newer) >= FEWEST:
                yield _thinned(newer)

    def forecast(self, resource: Resource) -> Forecast | None:
        """What is to be expected; None: too little is known yet.

        By the newer half of the steps; or, for what began to grow late, by less.
        """
        found: Forecast | None = None
        for points in self.views():
            seen = self._forecast(resource, points)
            if seen.seconds is not None:
                return seen
            found = found or seen
        return found

    def _forecast(self, resource: Resource, newer: list[Point]) -> Forecast:
        values = [(float(point.step), point.level.used) for point in newer]
        trend = trend_of(values)
        newest = newer[-len(newer) // 3 :]  # a step may need more than it did
        capacity = median([point.level.capacity for point in newest])
        used = self._used(trend.slope)
        pace = (newer[-1].at - newer[0].at) / max(newer[-1].step - newer[0].step, 1)
        still = slope_of(values[-len(newest) :]) >= STILL * trend.slope
        new = used > self._highest_before(newer[0].step)
        growing = still and new and trend.slope > 0 and trend.confidence >= SURE
        left = max(capacity - used, 0.0)
        return Forecast(
            resource=resource,
            seconds=pace * left / trend.slope if growing else None,
            confidence=trend.confidence,
            used=used,
            capacity=capacity,
            growth=trend.slope / pace if pace > 0 else 0.0,
            grown=used - self.points[0].level.used,
            watched_seconds=self.points[-1].at - self.points[0].at,
        )

    def _highest_before(self, step: int) -> float:
        older = (point.level.used for point in self.points if point.step < step)
        return max(older, default=-math.inf)

    def _used(self, slope: float) -> float:
        """Now: the newest readings agree on it, moved on to the newest of them, but
        not beyond what was seen."""
        newest = sorted(self.points[-NEWEST:], key=lambda point: point.level.used)
        middle = newest[len(newest) // 2]
        ahead = max(slope, 0.0) * (self.points[-1].step - middle.step)
        return min(middle.level.used + ahead, newest[-1].level.used)


@dataclass(frozen=True, slots=True)
class MemoryTrends:
    """All that was read in one attempt."""

    series: dict[Resource, Series] = field(default_factory=dict[Resource, Series])
    step_bytes: int = 0
    """What a step needs for itself, as far as was seen."""
    last: MemoryReading | None = None
    """The last that knew the allocator."""

    def and_then(self, reading: MemoryReading) -> "MemoryTrends":
        """With one more reading."""
        step = max(reading.step_bytes(self.last) or 0, self.step_bytes)
        grown = {
            resource: self.series.get(resource, Series()).and_then(
                Point(reading.at, reading.step, level)
            )
            for resource, level in reading.levels(step_bytes=step).items()
        }
        return MemoryTrends(
            series={**self.series, **grown},
            step_bytes=step,
            last=self.last if reading.in_use is None else reading,
        )

    def only(self, *resources: Resource) -> "MemoryTrends":
        """What is known of these, and nothing else."""
        kept = {one: self.series[one] for one in resources if one in self.series}
        return MemoryTrends(series=kept)

    def nearly(self, part: float) -> bool:
        """Whether any resource is used up to this part of its capacity."""
        newest = [one.points[-1].level.part for one in self.series.values()]
        return any(used >= part for used in newest)

    def settled(self, part: float) -> bool:
        """Whether enough was read for a forecast of each resource, and none of them is
        used up to this part of its capacity."""
        counts = [len(one.points) for one in self.series.values()]
        return min(counts, default=0) >= ENOUGH and not self.nearly(part)

    def forecasts(self) -> list[Forecast]:
        """One of each resource of which enough is known."""
        found = [series.forecast(resource) for resource, series in self.series.items()]
        return [forecast for forecast in found if forecast is not None]


def _newer(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those of the newer half of the steps."""
    middle = (points[0].step + points[-1].step) / 2
    return tuple(point for point in points if point.step >= middle)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most ``MOST`` of them, the newest among them."""
    every = -(-len(points) // MOST)
    return list(points[::-1][::every][::-1])
