"""A bounded time series of an attempt: how loss, step time and memory went.

At most ``MOST`` points, whatever the length of the attempt: when there are more, twice as
long a time shares one. A point keeps the newest of what moves on and the highest of
memory, so that a peak is never thinned away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

MOST = 240
FINEST_SECONDS = 0.25
"""Points that are nearer to each other share one from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPoint:
    """An attempt at one moment. None: not known then."""

    seconds: float
    """Since the attempt was launched."""
    step: int | None = None
    epoch: int | None = None
    """From 0, as Keras counts."""
    loss: float | None = None
    loss_step: int | None = None
    """The step that ``loss`` is of; None: an older version did not keep it."""
    step_seconds: float | None = None
    device_bytes: int | None = None
    """The framework's allocator: in use."""
    pool_bytes: int | None = None
    limit_bytes: int | None = None
    largest_free_bytes: int | None = None
    """The lowest: what was left for a large tensor."""
    peak_bytes: int | None = None
    """The highest within a step, as far as the allocator has told."""
    host_bytes: int | None = None
    """Main memory of the training process."""

    def followed_by(self, later: "ProgressPoint") -> "ProgressPoint":
        """Both as one."""
        known = {
            name: _HOW.get(name, _newest)(getattr(self, name), getattr(later, name))
            for name in NAMES
        }
        return ProgressPoint(**known)


NAMES = tuple(one.name for one in fields(ProgressPoint))
"""Of the columns of a series, in order."""


def _newest(before: Any, later: Any) -> Any:
    return before if later is None else later


def _highest(before: Any, later: Any) -> Any:
    return max((one for one in (before, later) if one is not None), default=None)


def _lowest(before: Any, later: Any) -> Any:
    return min((one for one in (before, later) if one is not None), default=None)


_HOW = {
    "device_bytes": _highest,
    "pool_bytes": _highest,
    "peak_bytes": _highest,
    "host_bytes": _highest,
    "largest_free_bytes": _lowest,
}
"""How two points become one; what is not named here: the newest that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSeries:
    """Points of one attempt, oldest first."""

    points: tuple[ProgressPoint, ...] = ()
    every: float = FINEST_SECONDS
    """Points within so many seconds share one."""

    def with_point(self, point: ProgressPoint) -> "ProgressSeries":
        """And one more, which is the newest."""
        longer = replace(self, points=_joined(self.points, point, self.every))
        while len(longer.points) > MOST:
            every = longer.every * 2
            longer = ProgressSeries(points=_sparser(longer.points, every), every=every)
        return longer

    @property
    def seconds(self) -> float:
        """How long after the launch the newest point lies; 0 without one."""
        return self.points[-1].seconds if self.points else 0.0

    @property
    def device_peak_bytes(self) -> int | None:
        """The most that the framework's allocator held."""
        known = ((p.peak_bytes, p.device_bytes) for p in self.points)
        return max((b for both in known for b in both if b is not None), default=None)

    @property
    def device_limit_bytes(self) -> int | None:
        """What the allocator had to keep to: the newest that was told."""
        known = [p.limit_bytes for p in self.points if p.limit_bytes is not None]
        return known[-1] if known else None

    @property
    def host_peak_bytes(self) -> int | None:
        """The most main memory that was seen."""
        known = (p.host_bytes for p in self.points)
        return max((one for one in known if one is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Column by column; a column that nobody knew anything of is left out."""
        columns = {name: [getattr(p, name) for p in self.points] for name in NAMES}
        known = {n: c for n, c in columns.items() if any(v is not None for v in c)}
        return {"every": self.every, **known}


def series_from_json(value: Mapping[str, Any]) -> ProgressSeries:
    """What ``to_json`` made; columns that it does not know are left out. Raises
    ValueError, TypeError for anything else."""
    columns = {name: cast("list[Any]", value[name]) for name in NAMES if name in value}
    rows = zip(*columns.values(), strict=True)
    points = (ProgressPoint(**dict(zip(columns, row, strict=True))) for row in rows)
    return ProgressSeries(
        points=tuple(points), every=float(value.get("every", FINEST_SECONDS))
    )


def _joined(
    points: tuple[ProgressPoint, ...], point: ProgressPoint, every: float
) -> tuple[ProgressPoint, ...]:
    if points and points[-1].seconds // every == point.seconds // every:
        return (*points[:-1], points[-1].followed_by(point))
    return (*points, point)


def _sparser(
    points: Iterable[ProgressPoint], every: float
) -> tuple[ProgressPoint, ...]:
    found: tuple[ProgressPoint, ...] = ()
    for point in points:
        found = _joined(found, point, every)
    return found
