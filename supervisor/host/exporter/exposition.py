"""Rendering for Prometheus: statuses in, both text formats out.

What did not change since the last time is not encoded again: most of the lines of a
scrape are counters of things that seldom happen, and of the others only the numbers
change. It comes to the same bytes as the library's own encoders. Once a second those
take 1.4 % of a core for 8 runs, more than all of the daemon may, and this 0.1 %
(``make bench-exposition``).
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate
from typing import NamedTuple, assert_never

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

import supervisor
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.metrics.catalog import METRICS
from supervisor.core.metrics.machine_state import Machine
from supervisor.core.metrics.metric import (
    Distribution,
    Metric,
    MetricKind,
    Point,
    Points,
    Value,
    listed,
)
from supervisor.wire.page import STEP_BUCKETS_SECONDS

_written: Callable[[float], str] = import_module(
    "prometheus_client.utils"
).floatToGoString
# Imported in this way because it has no types.
BOUNDS = (*(str(bound) for bound in STEP_BUCKETS_SECONDS), "+Inf")
"""The label ``le`` of each bucket."""

_encode_openmetrics, _ = choose_encoder("application/openmetrics-text")
# Asked for in this way because the function itself has no types.
_END = b"# EOF\n"

ABOUT_US: dict[str, tuple[str, ...]] = {
    "build": (supervisor.__version__, platform.python_version()),
}
"""Values of the rows that no status fills, by their names."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """What there is to show."""

    statuses: tuple[JobStatus, ...] = ()
    machine: Machine = field(default_factory=Machine)


def points_of(metric: Metric, scene: MetricsSnapshot) -> tuple[Point, ...]:
    """Everything that ``metric`` says about ``scene``, with every label."""
    if metric.name in ABOUT_US:
        return ((ABOUT_US[metric.name], 1.0),)
    if not metric.of_run:
        return tuple(metric.machine_points(scene.machine))
    return tuple(
        ((status.job, *labels), value)
        for status in scene.statuses
        for labels, value in metric.points(status)
    )


class ExpositionEncoder:
    """One text format. How names and labels are written is asked of the library once
    for each series; after that only the numbers are written anew, of those runs where
    they changed."""

    def __init__(self, *, openmetrics: bool) -> None:
        self._encode = _encode_openmetrics if openmetrics else generate_latest
        self._end = _END if openmetrics else b""
        self._rows: list[_WrittenMetric] = []

    def encode(self, scene: MetricsSnapshot) -> bytes:
        """The whole answer to a scrape."""
        self._rows = self._rows or [
            _WrittenMetric(metric, self._whole) for metric in METRICS
        ]
        text = "".join([row.written(scene) for row in self._rows])
        return text.encode(errors="backslashreplace") + self._end

    def _whole(self, metric: Metric, points: Sequence[Point]) -> str:
        """As the library writes it."""
        whole = self._encode(_One(family(metric, points)))
        return whole.removesuffix(self._end).decode()


class _Said(NamedTuple):
    """What a metric said last of a run, or of all that is no run."""

    told: Value | Points
    text: str
    begun: dict[tuple[str, ...], tuple[str, ...]]
    """The lines of each series, each up to its number, by its labels."""


class _WrittenMetric:
    """One metric, as it was written last."""

    def __init__(
        self, metric: Metric, whole: Callable[[Metric, Sequence[Point]], str]
    ) -> None:
        self._metric = metric
        self._whole = whole
        self._head = whole(metric, ())
        self._said: dict[str, _Said] = {}
        """By run; of all that is no run, by no name."""

    def written(self, scene: MetricsSnapshot) -> str:
        """All that it says about ``scene``."""
        metric = self._metric
        told: dict[str, Value | Points]
        if metric.of_run:
            told = {status.job: metric.told(status) for status in scene.statuses}
        else:
            told = {"": points_of(metric, scene)}
        # Only what is there now is remembered: series that ended leave nothing behind.
        before, self._said = self._said, {}
        for run, now in told.items():
            said = before.get(run)
            if said is None or said.told != now:
                said = self._anew(run, now, {} if said is None else said.begun)
            self._said[run] = said
        return "".join([self._head, *[said.text for said in self._said.values()]])

    def _anew(
        self,
        run: str,
        told: Value | Points,
        begun: dict[tuple[str, ...], tuple[str, ...]],
    ) -> _Said:
        points, whose = listed(told), (run,) if self._metric.of_run else ()
        now = {
            labels: begun.get(labels) or self._begin((*whose, *labels), value)
            for labels, value in points
        }
        text = "".join([_text(now[labels], value) for labels, value in points])
        return _Said(told, text, now)

    def _begin(self, labels: tuple[str, ...], value: Value) -> tuple[str, ...]:
        """The lines of a series, each up to its number."""
        whole = self._whole(self._metric, ((labels, value),))
        lines = whole.removeprefix(self._head).split("\n")[:-1]
        return tuple(f"{line.rpartition(' ')[0]} " for line in lines)


def _text(begun: tuple[str, ...], value: Value) -> str:
    """The lines of a series with their numbers."""
    if isinstance(value, Distribution):
        counts = tuple(accumulate(value.counts or (0,) * len(BOUNDS)))
        numbers = (*counts, counts[-1], value.total)
        lines = zip(begun, numbers, strict=True)
        return "".join([f"{line}{_written(number)}\n" for line, number in lines])
    return "" if value is None else f"{begun[0]}{_written(value)}\n"


class _One(Collector):
    """What the library's encoders take: something to collect families from."""

    def __init__(self, one: Family) -> None:
        self._one = one

    @override
    def collect(self) -> Iterator[Family]:
        return iter((self._one,))


def family(metric: Metric, points: Sequence[Point]) -> Family:
    """``metric`` with its points, as the library's encoders take it."""
    match metric.kind:
        case MetricKind.GAUGE:
            return _plain(GaugeMetricFamily, metric, points)
        case MetricKind.COUNTER:
            return _plain(CounterMetricFamily, metric, points)
        case MetricKind.HISTOGRAM:
            return _histogram(metric, points)
        case MetricKind.INFO:
            return _info(metric, points)
        case _:
            assert_never(metric.kind)


_Points = Sequence[tuple[tuple[str, ...], Value]]


def _plain(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    metric: Metric,
    points: _Points,
) -> Family:
    made = kind(
        metric.family, metric.help, labels=list(metric.labels), unit=metric.unit
    )
    for labels, value in points:
        if isinstance(value, int | float):
            made.add_metric(labels, value)
    return made


def _histogram(metric: Metric, points: _Points) -> Family:
    made = HistogramMetricFamily(
        metric.family, metric.help, labels=list(metric.labels), unit=metric.unit
    )
    for labels, value in points:
        if isinstance(value, Distribution):
            counts = accumulate(value.counts or (0,) * len(BOUNDS))
            buckets = list(zip(BOUNDS, counts, strict=True))
            made.add_metric(labels, buckets, sum_value=value.total)
    return made


def _info(metric: Metric, points: _Points) -> Family:
    made = InfoMetricFamily(metric.family, metric.help)
    for labels, _ in points:
        made.add_metric([], dict(zip(metric.labels, labels, strict=True)))
    return made
