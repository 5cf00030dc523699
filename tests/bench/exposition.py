"""What our writing of a scrape costs, against prometheus_client's own encoder.

Run as ``make bench-exposition``. In pairs, of runs in which every figure changes that
changes in a training from one second to the next; both write the same bytes.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from typing_extensions import override

from supervisor.core.metrics.catalog import METRICS
from supervisor.host.exporter.exposition import (
    ExpositionEncoder,
    MetricsSnapshot,
    family,
    points_of,
)
from tests.bench.exporter_alone import statuses
from tests.support.metrics import MACHINE

PAIRS = 21


class Everything(Collector):
    """All that is known, as the library collects it."""

    def __init__(self, scene: MetricsSnapshot) -> None:
        self._scene = scene

    @override
    def collect(self) -> Iterator[Family]:
        return (family(metric, points_of(metric, self._scene)) for metric in METRICS)


def seconds(write: Callable[[], bytes]) -> tuple[float, bytes]:
    """Processor time of it, and what was written."""
    began = time.thread_time()
    written = write()
    return time.thread_time() - began, written


def compared(runs: int) -> dict[str, float]:
    """Medians of the pairs."""
    encoder, (encode, _) = (
        ExpositionEncoder(openmetrics=True),
        choose_encoder("application/openmetrics-text"),
    )
    ours, theirs = list[float](), list[float]()
    for second in range(PAIRS + 1):
        scene = MetricsSnapshot(tuple(statuses(runs, [1], second)), MACHINE)
        one, text = seconds(partial(encoder.encode, scene))
        two, same = seconds(partial(encode, Everything(scene)))
        if text != same:
            sys.exit("they do not write the same")
        ours.append(one)
        theirs.append(two)
    pairs = list(zip(ours, theirs, strict=True))[1:]  # in the first ours learns
    return {
        "ours_ms": round(1e3 * statistics.median(one for one, _ in pairs), 2),
        "library_ms": round(1e3 * statistics.median(two for _, two in pairs), 2),
        "library_to_ours": round(statistics.median(b / a for a, b in pairs), 1),
    }


def main() -> None:
    """Print the figures."""
    found = {f"{runs} runs": compared(runs) for runs in (1, 8, 64)}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
