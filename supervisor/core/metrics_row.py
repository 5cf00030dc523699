"""One metric: a row of the table (``metrics_table``), and what may stand in it."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from supervisor.core.machine import Machine
from supervisor.core.status import JobStatus

PREFIX = "trainwarden_"


class Kind(enum.StrEnum):
    """Types of OpenMetrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Lifetime(enum.StrEnum):
    """How long a series of a run is exported."""

    ATTEMPT = "attempt"
    """While a training process is there."""
    RUN = "run"
    """As long as the run is shown at all."""
    DEVICE = "device"
    """While there is what it is about: a GPU, a file system, a collector."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Observations a bucket, not cumulated, and their sum; no counts: none yet."""

    counts: tuple[int, ...]
    total: float


Value = float | Distribution | None
"""None: not known, so not exported."""
Point = tuple[tuple[str, ...], Value]
"""Values of the labels (of a run: those after ``run``), and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row. ``name`` is without prefix, unit and suffix."""

    name: str
    kind: Kind
    help: str
    source: str
    """Where the value comes from."""
    unit: str = ""
    labels: tuple[str, ...] = ("run",)
    lifetime: Lifetime = Lifetime.RUN
    read: Callable[[JobStatus], Iterable[Point]] | None = None
    """Of a run; the points are without its name."""
    read_machine: Callable[[Machine], Iterable[Point]] | None = None
    """Of the machine; the points have every label. Neither: about the exporter itself,
    filled in by it."""

    @property
    def family(self) -> str:
        """The name in OpenMetrics: with prefix and unit."""
        return PREFIX + self.name + (f"_{self.unit}" if self.unit else "")

    @property
    def samples(self) -> tuple[str, ...]:
        """The names that a query can use."""
        return tuple(self.family + suffix for suffix in _SUFFIXES[self.kind])

    def points(self, status: JobStatus) -> list[Point]:
        """What to export of ``status``: nothing unknown, nothing that has ended."""
        if self.read is None:
            return []
        if self.lifetime is Lifetime.ATTEMPT and status.pid is None:
            return []
        return [point for point in self.read(status) if point[1] is not None]

    def machine_points(self, machine: Machine) -> list[Point]:
        """What to export of ``machine``."""
        if self.read_machine is None:
            return []
        return [point for point in self.read_machine(machine) if point[1] is not None]


_SUFFIXES = {
    Kind.GAUGE: ("",),
    Kind.COUNTER: ("_total",),
    Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
    Kind.INFO: ("_info",),
}


def one(get: Callable[[JobStatus], Value]) -> Callable[[JobStatus], list[Point]]:
    """The reader of a metric with no label but ``run``."""
    return lambda status: [((), get(status))]


ReadMachine = Callable[[Machine], Iterable[Point]]


def of_machine(
    name: str,
    text: str,
    read: ReadMachine,
    *,
    unit: str = "",
    kind: Kind = Kind.GAUGE,
    labels: tuple[str, ...] = ("gpu",),
    lifetime: Lifetime = Lifetime.DEVICE,
    source: str = "NVML",
) -> Metric:
    """A row about the machine."""
    return Metric(
        name=name,
        kind=kind,
        help=text,
        source=source,
        unit=unit,
        labels=labels,
        lifetime=lifetime,
        read_machine=read,
    )
