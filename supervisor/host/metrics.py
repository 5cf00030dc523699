"""Rendering for Prometheus: statuses in, both text formats out, once a sample.

A scrape is handed bytes that are ready (``Board``): rendering 64 runs takes tens of
milliseconds, which neither the loop nor a scrape should wait for.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import assert_never

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
from supervisor.core.metrics_table import METRICS, Distribution, Kind, Metric, Value
from supervisor.core.status import JobStatus
from supervisor.wire.page import STEP_BUCKETS_SECONDS

BOUNDS = (*(str(bound) for bound in STEP_BUCKETS_SECONDS), "+Inf")
"""The label ``le`` of each bucket."""

_encode_openmetrics, _ = choose_encoder("application/openmetrics-text")
# Asked for in this way because the function itself has no types.

ABOUT_US: dict[str, tuple[str, ...]] = {
    "build": (supervisor.__version__, platform.python_version()),
}
"""Values of the rows that no status fills, by their names."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The same samples in Prometheus' own text format and in OpenMetrics."""

    text: bytes
    openmetrics: bytes


def render(statuses: Iterable[JobStatus]) -> Rendered:
    """Everything the table says about ``statuses``, and about this exporter."""
    known = list(statuses)
    families = _Families([_family(metric, known) for metric in METRICS])
    return Rendered(
        text=generate_latest(families),
        openmetrics=_encode_openmetrics(families),
    )


class Board:
    """Holds what was rendered last. One thread publishes, any number read."""

    def __init__(self) -> None:
        self._latest: Rendered | None = None

    def publish(self, statuses: Iterable[JobStatus]) -> None:
        """Render ``statuses`` and put them up."""
        self._latest = render(statuses)

    def read(self) -> Rendered | None:
        """What was put up last; None before the first."""
        return self._latest


class _Families(Collector):
    """What the library's encoders take: something to collect families from."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    @override
    def collect(self) -> Iterator[Family]:
        return iter(self._families)


def _family(metric: Metric, statuses: Sequence[JobStatus]) -> Family:
    points = [
        ((status.job, *labels), value)
        for status in statuses
        for labels, value in metric.points(status)
    ]
    match metric.kind:
        case Kind.GAUGE:
            return _plain(GaugeMetricFamily, metric, points)
        case Kind.COUNTER:
            return _plain(CounterMetricFamily, metric, points)
        case Kind.HISTOGRAM:
            return _histogram(metric, points)
        case Kind.INFO:
            return _info(metric)
        case _:
            assert_never(metric.kind)


_Points = Sequence[tuple[tuple[str, ...], Value]]


def _plain(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    metric: Metric,
    points: _Points,
) -> Family:
    family = kind(
        metric.family, metric.help, labels=list(metric.labels), unit=metric.unit
    )
    for labels, value in points:
        if isinstance(value, int | float):
            family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, points: _Points) -> Family:
    family = HistogramMetricFamily(
        metric.family, metric.help, labels=list(metric.labels), unit=metric.unit
    )
    for labels, value in points:
        if isinstance(value, Distribution):
            counts = accumulate(value.counts or (0,) * len(BOUNDS))
            buckets = list(zip(BOUNDS, counts, strict=True))
            family.add_metric(labels, buckets, sum_value=value.total)
    return family


def _info(metric: Metric) -> Family:
    family = InfoMetricFamily(metric.family, metric.help)
    family.add_metric([], dict(zip(metric.labels, ABOUT_US[metric.name], strict=True)))
    return family
