"""Which runs are asked for, and how many GPUs a spec names."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from supervisor.core.jobs.accounting.run_summary import (
    RunFilter,
    RunSummary,
    elapsed_text,
    gpu_count,
    lost_text,
)
from supervisor.core.jobs.job_status import JobState

RUN = RunSummary(
    job="mnist-1",
    run=1,
    user="ada",
    state=JobState.FINISHED,
    began_at="2026-01-31T12:00:00+00:00",
    ended_at="2026-01-31T14:00:00+00:00",
    elapsed_seconds=7200.0,
    attempts=2,
    attempt_seconds=7100.0,
    exit_code=0,
    cause=None,
    incidents=1,
    steps=100,
    device_peak_bytes=None,
    host_peak_bytes=None,
    gpus=1,
    gpu_seconds=7100.0,
    lost_steps=0,
    downtime_seconds=3.0,
)
NOON, TWO, FOUR = (datetime(2026, 1, 31, hour, 30, tzinfo=UTC) for hour in (11, 13, 15))


@pytest.mark.parametrize(
    ("wanted", "admitted"),
    [
        (RunFilter(), True),
        (RunFilter(user="ada", states=frozenset({JobState.FINISHED})), True),
        (RunFilter(user="bob"), False),
        (RunFilter(states=frozenset({JobState.GAVE_UP})), False),
        (RunFilter(name="mnist-*"), True),
        (RunFilter(name="mnist"), False),
        (RunFilter(since=TWO, until=TWO), True),
        (RunFilter(since=FOUR), False),
        (RunFilter(until=NOON), False),
    ],
)
def test_a_filter(wanted: RunFilter, *, admitted: bool) -> None:
    """A run is asked for if all that is said holds of it."""
    assert wanted.admits(RUN) is admitted


def test_a_run_that_goes_on_is_of_every_time_after_its_beginning() -> None:
    """It has not ended by ``since``, whenever that is."""
    going_on = replace(RUN, state=JobState.RUNNING, ended_at=None)
    assert RunFilter(since=FOUR).admits(going_on)


def test_gpus_of_a_spec() -> None:
    """By name; none under a limit on CPU tensors; else nobody knows."""
    assert gpu_count({"gpus": ["0", "1"], "memory": {"cpu": None}}) == 2
    assert gpu_count({"gpus": None, "memory": {"cpu": 600}}) == 0
    assert gpu_count({"gpus": None}) is None


def test_what_was_lost_in_words() -> None:
    """Both figures, each with its unit."""
    assert lost_text(1, 7.0) == "1 step done again, 7.0 s without a step"
    assert lost_text(12, 0.0).startswith("12 steps done again, ")


def test_the_time_between_commands_stands_beside_what_they_took() -> None:
    """Where there was some."""
    assert elapsed_text(30.0, 0.0) == "30 s"
    assert elapsed_text(30.0, 60.0) == "30 s and 1 min 00 s between its commands"
