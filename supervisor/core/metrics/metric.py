"""One metric: a row of the table (``catalog``), and what may stand in it."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.metrics.machine_state import Machine

PREFIX = "trainwarden_"


class MetricKind(enum.StrEnum):
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
Points = tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row. ``name`` is without prefix, unit and suffix."""

    name: str
    kind: MetricKind
    help: str
    source: str
    """Where the value comes from."""
    unit: str = ""
    labels: tuple[str, ...] = ("run",)
    lifetime: Lifetime = Lifetime.RUN
    value: Callable[[JobStatus], Value] | None = None
    """Of a run, where there is no label but ``run``."""
    read: Callable[[JobStatus], Points] | None = None
    """Of a run, where there are more; the points are without its name."""
    read_machine: Callable[[Machine], Iterable[Point]] | None = None
    """Of the machine; the points have every label. None of them: about the exporter
    itself, filled in by it."""

    @property
    def family(self) -> str:
        """The name in OpenMetrics: with prefix and unit."""
        return PREFIX + self.name + (f"_{self.unit}" if self.unit else "")

    @property
    def samples(self) -> tuple[str, ...]:
        """The names that a query can use."""
        return tuple(self.family + suffix for suffix in _SUFFIXES[self.kind])

    @property
    def of_run(self) -> bool:
        """Whether it is about runs."""
        return self.value is not None or self.read is not None

    def told(self, status: JobStatus) -> Value | Points:
        """What ``value`` or ``read`` says of a run; None: nothing, or it has ended."""
        if self.lifetime is Lifetime.ATTEMPT and status.pid is None:
            return None
        if self.value is not None:
            return self.value(status)
        return None if self.read is None else self.read(status)

    def points(self, status: JobStatus) -> list[Point]:
        """What to export of ``status``: nothing unknown, nothing that has ended."""
        return listed(self.told(status))

    def machine_points(self, machine: Machine) -> list[Point]:
        """What to export of ``machine``."""
        if self.read_machine is None:
            return []
        return [point for point in self.read_machine(machine) if point[1] is not None]


_SUFFIXES = {
    MetricKind.GAUGE: ("",),
    MetricKind.COUNTER: ("_total",),
    MetricKind.HISTOGRAM: ("_bucket", "_count", "_sum"),
    MetricKind.INFO: ("_info",),
}


def listed(told: Value | Points) -> list[Point]:
    """What was ``told`` of a run as points: nothing that is unknown."""
    if isinstance(told, tuple):
        return [point for point in told if point[1] is not None]
    return [] if told is None else [((), told)]


ReadMachine = Callable[[Machine], Iterable[Point]]


def of_machine(
    name: str,
    text: str,
    read: ReadMachine,
    *,
    unit: str = "",
    kind: MetricKind = MetricKind.GAUGE,
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
