"""The status line: what is known of a run, in the width there is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.status_line import (
    Pace,
    RunView,
    left_seconds,
    status_line,
    steps_left,
)
from supervisor.core.jobs.job_status import JobState, JobStatus, SnapshotStatus

TRAINING = JobStatus(
    job="digits",
    state=JobState.RUNNING,
    attempt=2,
    phase="training",
    pid=7,
    epoch=2,
    epochs=8,
    step=30,
    step_in_epoch=6,
    steps_per_epoch=12,
    loss=0.123456,
    step_seconds=0.5,
    slices=3,
    snapshot=SnapshotStatus(step=28, age_seconds=75.0),
    memory_limit_bytes=280 << 20,
    memory_peak_bytes=212 << 20,
    memory_in_use_bytes=31 << 20,
    message="attempt 2",
)
VIEW = RunView(
    status=TRAINING, elapsed_seconds=100.2, left_seconds=130.0, silent_seconds=4.0
)
WIDE = (
    "attempt 2 · epoch 3/8 · step 6/12 · 2.0 steps/s · loss 0.1235"
    " · step peak 212 MiB of 280 MiB · 3 slices · saved 1 min 15 s ago · 1 min 40 s"
    " · 2 min left"
)
STANDS = replace(VIEW, silent_seconds=42.0)

numbers = st.none() | st.integers(0, 10**9)
seconds = st.floats(0, 1e7)
statuses = st.builds(
    JobStatus,
    job=st.text(max_size=20),
    state=st.sampled_from(JobState),
    attempt=st.integers(0, 999),
    phase=st.none() | st.sampled_from(["training", "validating", "finished"]),
    pid=numbers,
    epoch=numbers,
    epochs=numbers,
    step=numbers,
    step_in_epoch=numbers,
    steps_per_epoch=numbers,
    loss=st.none() | st.floats(),
    step_seconds=st.none() | st.floats(1e-6, 1e6),
    slices=numbers,
    snapshot=st.none()
    | st.builds(SnapshotStatus, step=st.just(1), age_seconds=seconds),
    memory_limit_bytes=numbers,
    memory_peak_bytes=numbers,
    memory_in_use_bytes=numbers,
    message=st.text(max_size=80),
)
views = st.builds(
    RunView,
    status=statuses,
    elapsed_seconds=seconds,
    left_seconds=st.none() | seconds,
    silent_seconds=seconds,
)


def test_all_there_is_to_know() -> None:
    """Where there is room for it."""
    assert status_line(VIEW, 400) == WIDE


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "attempt 2 · epoch 3/8 · step 6/12 · loss 0.1235 · nothing new for 42 s"),
        (50, "epoch 3/8 · step 6/12 · nothing new for 42 s"),
        (20, "nothing new for 42 s"),
        (10, "nothing n…"),
    ],
)
def test_the_least_worth_goes_first(width: int, line: str) -> None:
    """How far it is and that nothing comes go last."""
    assert status_line(STANDS, width) == line


@given(views, st.integers(0, 250))
def test_it_is_never_wider_and_never_a_command(view: RunView, width: int) -> None:
    """Whatever a job is called, and says."""
    line = status_line(view, width)
    assert cell_len(line) <= width
    assert not any(ch < " " or "\x7f" <= ch <= "\x9f" for ch in line)


@given(views, st.integers(1, 250))
def test_more_room_shows_no_less(view: RunView, width: int) -> None:
    """A part that a narrow line has, a wider one has too."""
    narrow = status_line(view, width)
    if not narrow.endswith("…"):
        wide = status_line(view, width + 1)
        assert len(wide) >= len(narrow)


def test_a_run_that_stands_has_no_pace() -> None:
    """Neither rate nor time left, which would grow with the silence; a step that takes a
    minute has both all the same."""
    stands = status_line(STANDS, 400)
    assert stands.endswith("1 min 40 s · nothing new for 42 s")
    assert "steps/s" not in stands
    slow = replace(STANDS, status=replace(TRAINING, step_seconds=60.0))
    assert status_line(slow, 400).endswith("2 min left · nothing new for 42 s")


def test_before_it_trains() -> None:
    """The state, and what goes on."""
    starting = replace(TRAINING, step=None, phase="starting", message="attempt 2")
    view = RunView(status=starting, elapsed_seconds=3.9)
    assert status_line(view, 80) == "digits · running (starting) · attempt 2 · 3 s"


def test_how_long_it_still_takes() -> None:
    """By the last two minutes, with all that lies between the steps; a restart, which goes
    back, counts anew."""
    pace = Pace()
    for at in range(300):
        step = at // 2 + 1
        pace = pace.seen(replace(TRAINING, step=step), now=float(at))
    assert pace.step_seconds == pytest.approx(2.0, rel=0.02)
    assert steps_left(TRAINING) == 66
    assert left_seconds(TRAINING, pace) == pytest.approx(132.0, rel=0.02)
    compiling = replace(TRAINING, step=0, phase="compiling")
    assert Pace().seen(compiling, now=0.0) == Pace()  # the first step is like no other
    again = pace.seen(replace(TRAINING, step=5), now=300.0)
    assert again.step_seconds is None
    assert left_seconds(TRAINING, again) is None
    assert steps_left(replace(TRAINING, epochs=None)) is None
    assert Pace().seen(replace(TRAINING, step=None), now=0.0) == Pace()
