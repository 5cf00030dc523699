"""What a scrape gets: both formats, read back by the library's own parsers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from typing_extensions import override

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.metrics.catalog import METRICS
from supervisor.core.metrics.machine_state import Machine
from supervisor.host.exporter.exposition import (
    ExpositionEncoder,
    MetricsSnapshot,
    family,
    points_of,
)
from supervisor.wire.page import STEP_BUCKETS_SECONDS
from tests.support.generated import encoded, openmetrics, parse_openmetrics
from tests.support.metrics import BOARD, DIGITS, MACHINE, PART

OTHER = JobStatus(job='a "b"\\', state=JobState.WAITING, attempt=1)


def sample(families: list[Family], name: str, **labels: str) -> float:
    """The one sample of ``name`` with at least these labels."""
    (found,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return found


def test_every_row_is_in_a_scrape() -> None:
    """The scrape of a run that has everything holds each sample of the table."""
    families = openmetrics(DIGITS)
    exported = {point.name for family in families for point in family.samples}
    assert exported == {name for metric in METRICS for name in metric.samples}


def test_no_label_says_whose_a_run_is() -> None:
    """A run is shown with its name, never with its user, a pid, a path or an argument;
    users stand beside sums over all of their jobs alone."""
    sums = {"jobs", "queue_longest_wait", "user_gpu_time"}
    others = [metric for metric in METRICS if metric.name not in sums]
    labels = {label for metric in others for label in metric.labels}
    assert labels == {
        *("run", "state", "phase", "cause", "result", "source", "resource", "tier"),
        *("gpu", "bus", "driver", "name", "parent", "reason", "kind", "span"),
        *("filesystem", "collector", "python", "version", "use", "clock", "direction"),
    }


def test_both_formats_say_the_same() -> None:
    """Text and OpenMetrics hold the same samples."""
    formats: tuple[Iterable[Family], ...] = (
        parse_text(encoded(DIGITS, openmetrics=False).decode()),
        parse_openmetrics(encoded(DIGITS, openmetrics=True).decode()),
    )
    text, openmetrics_ = (
        {
            (point.name, *sorted(point.labels.items()), point.value)
            for family in families
            for point in family.samples
        }
        for families in formats
    )
    assert text == openmetrics_


class AllFamilies(Collector):
    """All families at once: as the library itself would render a scrape."""

    def __init__(self, scene: MetricsSnapshot) -> None:
        self.families = [family(m, points_of(m, scene)) for m in METRICS]

    @override
    def collect(self) -> Iterator[Family]:
        return iter(self.families)


def test_encoded_as_the_library_does() -> None:
    """Family by family comes to the same bytes as the library's whole scrape; what was
    remembered from the last scene leaves no trace."""
    encoders = {o: ExpositionEncoder(openmetrics=o) for o in (False, True)}
    scenes = [
        MetricsSnapshot((DIGITS,), MACHINE),
        MetricsSnapshot((replace(DIGITS, step=16, loss=math.nan), OTHER), Machine()),
        MetricsSnapshot((), MACHINE),
        MetricsSnapshot((DIGITS,), MACHINE),
    ]
    for scene in scenes:
        whole = AllFamilies(scene)
        assert encoders[False].encode(scene) == generate_latest(whole)
        accept, _ = choose_encoder("application/openmetrics-text")
        assert encoders[True].encode(scene) == accept(whole)


def test_a_queued_job_is_told_as_one() -> None:
    """Before its first attempt it has a state like any other, and no figures."""
    waiting = JobStatus(job="digits", state=JobState.QUEUED, attempt=0)
    families = openmetrics(waiting)
    states = {state.value: 0.0 for state in JobState} | {"queued": 1.0}
    for state, value in states.items():
        assert sample(families, "trainwarden_run_state", state=state) == value
    assert sample(families, "trainwarden_attempts_total", run="digits") == 0


def test_values() -> None:
    """What the status says is what the scrape says, with the run as a label."""
    families = openmetrics(DIGITS)
    assert sample(families, "trainwarden_step", run="digits") == 15
    assert sample(families, "trainwarden_run_state", state="running") == 1
    assert sample(families, "trainwarden_run_state", state="gave_up") == 0
    assert sample(families, "trainwarden_restarts_total", cause="device_oom") == 1
    assert sample(families, "trainwarden_restarts_total", cause="host_oom") == 0
    assert sample(families, "trainwarden_allocator_limit_bytes") == 160 * 2**20
    assert sample(families, "trainwarden_microbatch_samples") == 32


def test_histogram_is_cumulated() -> None:
    """Buckets are cumulated, the last holds all, and the sum is beside them."""
    families = openmetrics(DIGITS)
    name = "trainwarden_step_duration_seconds"
    assert sample(families, f"{name}_bucket", le="0.03") == 0
    assert sample(families, f"{name}_bucket", le="0.1") == 3
    assert sample(families, f"{name}_bucket", le="0.3") == 14
    assert sample(families, f"{name}_bucket", le="+Inf") == 15
    assert sample(families, f"{name}_count") == 15
    assert sample(families, f"{name}_sum") == pytest.approx(130.5)


def test_histograms_are_small() -> None:
    """A histogram has at most 12 buckets."""
    assert len(STEP_BUCKETS_SECONDS) + 1 <= 12


def test_several_runs() -> None:
    """Each run has its own series, and a name with quotes in it does no harm."""
    families = openmetrics(DIGITS, OTHER)
    assert sample(families, "trainwarden_attempts_total", run='a "b"\\') == 1
    assert sample(families, "trainwarden_attempts_total", run="digits") == 2


def test_nobody_runs() -> None:
    """Without a run the exporter still says who it is."""
    assert sample(openmetrics(), "trainwarden_build_info") == 1


def test_gpus() -> None:
    """What is known of a GPU has its UUID; names are joined by the info metric."""
    families = openmetrics(DIGITS)
    assert sample(families, "trainwarden_gpu_info", gpu=PART, parent=BOARD) == 1
    assert sample(families, "trainwarden_gpu_temperature_celsius", gpu=BOARD) == 61
    assert (
        sample(families, "trainwarden_gpu_throttled", gpu=BOARD, reason="power_cap")
        == 1
    )
    assert sample(families, "trainwarden_gpu_xids_total", gpu=BOARD, kind="bus") == 1
