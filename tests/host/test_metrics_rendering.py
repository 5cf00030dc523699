"""What a scrape gets: both formats, read back by the library's own parsers."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from supervisor.core.causes import Cause
from supervisor.core.metrics_table import METRICS, as_markdown
from supervisor.core.status import JobState, JobStatus, SnapshotStatus
from supervisor.host.metrics import Board, render
from supervisor.wire.page import STEP_BUCKETS_SECONDS

parse_openmetrics = cast(
    "Callable[[str], Iterable[Family]]",
    openmetrics_parser.text_string_to_metric_families,  # pyright: ignore[reportUnknownMemberType]  # has no types
)
ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("metrics_golden.txt")

DIGITS = JobStatus(
    job="digits",
    state=JobState.RUNNING,
    attempt=2,
    phase="training",
    pid=4711,
    epoch=1,
    epochs=10,
    step=15,
    step_in_epoch=3,
    steps_per_epoch=12,
    samples=1920,
    loss=0.25,
    step_seconds=0.2,
    effective_batch=128,
    slices=4,
    slice_size=32,
    snapshot=SnapshotStatus(step=10, age_seconds=1.5),
    memory_limit_bytes=160 * 2**20,
    memory_in_use_bytes=21 * 2**20,
    memory_peak_bytes=158 * 2**20,
    host_rss_bytes=10**9,
    heartbeat_age_seconds=0.1,
    step_counts=(0, 0, 0, 0, 3, 11, 0, 0, 0, 0, 0, 1),
    step_seconds_sum=130.5,
    phase_seconds={"training": 3.1},
    restarts={Cause.DEVICE_OOM: 1},
    incidents={Cause.DEVICE_OOM: 1},
)


def openmetrics(*statuses: JobStatus) -> list[Family]:
    """What an OpenMetrics scrape of ``statuses`` says."""
    return list(parse_openmetrics(render(statuses).openmetrics.decode()))


def sample(families: list[Family], name: str, **labels: str) -> float:
    """The one sample of ``name`` with at least these labels."""
    (found,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return found


def described(families: list[Family]) -> Iterator[str]:
    """Name, type, unit, labels and help of each family, one line each."""
    for family in families:
        labels = sorted({label for point in family.samples for label in point.labels})
        yield (
            f"{family.name} | {family.type} | {family.unit or '-'} "
            f"| {', '.join(labels)} | {family.documentation}"
        )


def test_golden() -> None:
    """Names, types, units, labels and help of a scrape are those of the golden file.

    Dashboards and alerts of other people stand on them: a change here is a change for
    them.
    """
    told = "\n".join(described(openmetrics(DIGITS))) + "\n"
    assert told == GOLDEN.read_text()


def test_every_row_is_in_a_scrape() -> None:
    """The scrape of a run that has everything holds each sample of the table."""
    families = openmetrics(DIGITS)
    exported = {point.name for family in families for point in family.samples}
    assert exported == {name for metric in METRICS for name in metric.samples}


def test_documentation_is_the_table() -> None:
    """The page for people says what the table says."""
    page = (ROOT / "deploy" / "prometheus" / "metrics.md").read_text()
    assert as_markdown() in page


def test_both_formats_say_the_same() -> None:
    """Text and OpenMetrics hold the same samples."""
    rendered = render([DIGITS])
    formats: tuple[Iterable[Family], ...] = (
        parse_text(rendered.text.decode()),
        parse_openmetrics(rendered.openmetrics.decode()),
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
    other = JobStatus(job='a "b"\\', state=JobState.WAITING, attempt=1)
    families = openmetrics(DIGITS, other)
    assert sample(families, "trainwarden_attempts_total", run='a "b"\\') == 1
    assert sample(families, "trainwarden_attempts_total", run="digits") == 2


def test_nobody_runs() -> None:
    """Without a run the exporter still says who it is."""
    assert sample(openmetrics(), "trainwarden_build_info") == 1


def test_the_board_holds_the_newest() -> None:
    """The board is empty at first and then shows what was put up last."""
    board = Board()
    assert board.read() is None
    board.publish([DIGITS])
    assert board.read() == render([DIGITS])
