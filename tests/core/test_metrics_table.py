"""The table of metrics: its rules hold for every row."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.metrics_table import (
    METRICS,
    PHASES,
    Distribution,
    Kind,
    Lifetime,
    Metric,
    Point,
    as_markdown,
)
from supervisor.core.status import JobState, JobStatus, SnapshotStatus
from supervisor.wire.page import Phase

EMPTY = JobStatus(job="a", state=JobState.LAUNCHING, attempt=0)
FULL = JobStatus(
    job="a",
    state=JobState.RUNNING,
    attempt=2,
    phase="training",
    pid=4711,
    epoch=1,
    epochs=3,
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
    memory_limit_bytes=160,
    memory_in_use_bytes=21,
    memory_peak_bytes=158,
    host_rss_bytes=1000,
    heartbeat_age_seconds=0.1,
    step_counts=(0, 0, 0, 0, 3, 12, 0, 0, 0, 0, 0, 0),
    step_seconds_sum=3.1,
    phase_seconds={"training": 3.1},
    restarts={Cause.DEVICE_OOM: 1},
    incidents={Cause.DEVICE_OOM: 1},
)

BASE_UNITS = {"", "seconds", "bytes", "samples"}
NOT_BASE = re.compile(
    r"(?:_|^)(?:ms|millis\w*|us|minutes|hours|[kmg]i?b|percent)(?:_|$)"
)


def named(family: str) -> Metric:
    """The row of ``family``."""
    return next(metric for metric in METRICS if metric.family == family)


def points(family: str, status: JobStatus) -> list[Point]:
    """What the row of ``family`` exports of ``status``."""
    return named(family).points(status)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_names(metric: Metric) -> None:
    """Names are in base units, without the suffixes that the format adds."""
    assert re.fullmatch(r"trainwarden(_[a-z]+)+", metric.family)
    assert metric.unit in BASE_UNITS
    assert not NOT_BASE.search(metric.family)
    assert not metric.family.endswith(("_total", "_info", "_count", "_sum", "_bucket"))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_labels(metric: Metric) -> None:
    """A row about a run has the label run first, never job or pid."""
    assert metric.read is None or metric.labels[0] == "run"
    assert not {"job", "pid", "instance"} & set(metric.labels)
    assert metric.help.endswith(".")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_a_full_status_fills_every_row(metric: Metric) -> None:
    """Each row about a run finds its value in a status that has everything."""
    found = metric.points(FULL)
    assert bool(found) == (metric.read is not None)
    assert {len(labels) for labels, _ in found} <= {len(metric.labels) - 1}


def test_every_sample_has_one_row() -> None:
    """No two rows export a sample of one name."""
    names = [name for metric in METRICS for name in metric.samples]
    assert len(names) == len(set(names))


def test_counters_are_there_at_zero() -> None:
    """Before anything happened each cause and phase has a counter at 0."""
    for family in ("trainwarden_restarts", "trainwarden_incidents"):
        assert points(family, EMPTY) == [((cause.value,), 0) for cause in Cause]
    assert points("trainwarden_phase_seconds", EMPTY) == [
        ((phase,), 0.0) for phase in PHASES
    ]
    assert points("trainwarden_attempts", EMPTY) == [((), 0)]
    assert points("trainwarden_step_duration_seconds", EMPTY) == [
        ((), Distribution((), 0.0))
    ]


def test_unknown_is_not_zero() -> None:
    """A gauge that is not known yet has no sample."""
    gauges = [metric for metric in METRICS if metric.kind is Kind.GAUGE]
    filled = {metric.family for metric in gauges if metric.points(EMPTY)}
    assert filled == {"trainwarden_run_state"}


def test_phases_are_those_of_the_page() -> None:
    """The phases here are those of the telemetry page, in its order."""
    assert tuple(phase.name.lower() for phase in Phase) == PHASES


def test_gauges_of_the_process_end_with_it() -> None:
    """Without a training process what it used is gone, what it reached stays."""
    ended = JobStatus(
        job="a",
        state=JobState.GAVE_UP,
        attempt=2,
        step=15,
        phase="training",
        loss=0.1,
        memory_in_use_bytes=7,
    )
    for metric in METRICS:
        if metric.lifetime is Lifetime.ATTEMPT:
            assert metric.points(ended) == []
    assert points("trainwarden_step", ended) == [((), 15)]


@given(st.sampled_from(JobState))
def test_one_state_at_a_time(state: JobState) -> None:
    """Exactly the state of the run is 1."""
    found = points("trainwarden_run_state", JobStatus(job="a", state=state, attempt=1))
    assert [labels for labels, value in found if value] == [(state.value,)]
    assert len(found) == len(JobState)


@pytest.mark.parametrize("phase", PHASES)
def test_one_phase_at_a_time(phase: str) -> None:
    """Exactly the phase of the process is 1; without one there is no sample."""
    status = JobStatus(job="a", state=JobState.RUNNING, attempt=1, pid=1, phase=phase)
    found = points("trainwarden_phase", status)
    assert [labels for labels, value in found if value] == [(phase,)]
    unknown = JobStatus(job="a", state=JobState.RUNNING, attempt=1, pid=1)
    assert points("trainwarden_phase", unknown) == []


def test_markdown_names_every_sample() -> None:
    """The table for people has one row a metric and names each of its samples."""
    text = as_markdown()
    assert len(text.splitlines()) == len(METRICS) + 2
    at = [text.index(f"`{metric.samples[0]}`") for metric in METRICS]
    assert all(before < after for before, after in pairwise(at))
