"""The table of jobs, in the width there is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.top.gauges import (
    RecentSamples,
    share_bar,
    size_of_limit,
    sparkline,
)
from supervisor.cli.views.top.job_columns import job_table, step_time
from supervisor.cli.views.top.job_listing import SortKey
from supervisor.cli.views.top.spans import text_of
from supervisor.cli.views.top.top_view import TopView
from supervisor.core.jobs.job_status import (
    AllocatorStatus,
    ErrorStatus,
    JobState,
    SnapshotStatus,
)
from tests.support.listed_jobs import LISTS, MIB, listed

FULL = listed(
    "digits", epoch=0, epochs=4, step=7, loss=0.25, step_seconds=0.012,
    memory_in_use_bytes=212 * MIB, memory_limit_bytes=280 * MIB,
    snapshot=SnapshotStatus(step=6, age_seconds=7.4),
) | {"owner": "ada"}  # fmt: skip


def drawn(width: int, *jobs: dict[str, Any], view: TopView | None = None) -> list[str]:
    """The lines of a table of ``jobs``."""
    history = RecentSamples()
    for job in jobs:
        history.add(job)
    found = job_table(jobs, view or TopView(), history, width=width, rows=9)
    return [text_of(line) for line in found]


def test_all_columns() -> None:
    """Where there is room for them."""
    heading, row = drawn(140, FULL)
    assert heading.split() == [
        "job", "owner", "state", "try", "epoch", "step", "loss", "step", "time", "memory",
        "saved",
    ]  # fmt: skip
    assert row.split() == [
        ">", "digits", "ada", "running", "1", "1/4", "7", "0.2500", "12", "ms", "▁",
        "████░░", "212", "of", "280", "MiB", "▁", "7", "s",
    ]  # fmt: skip


def test_a_narrow_screen() -> None:
    """A bar says it without figures; name and state stay."""
    _, row = drawn(80, FULL)
    assert "████░░ 212 of 280 MiB" in row
    _, row = drawn(40, FULL)
    assert row.split() == [
        ">",
        "digits",
        "running",
        "████░░",
        "212",
        "of",
        "280",
        "MiB",
    ]
    _, row = drawn(36, FULL)
    assert row.split() == [">", "digits", "running", "████░░"]
    heading, row = drawn(18, FULL)
    assert (heading.split(), row.split()) == (
        ["job", "state"],
        [">", "digits", "running"],
    )


def test_a_column_of_which_nothing_is_known_takes_no_room() -> None:
    """As of jobs that wait."""
    heading, _ = drawn(140, listed("later", state=JobState.QUEUED, attempt=0))
    assert heading.split() == ["job", "state", "try"]


def test_the_column_that_is_sorted_by() -> None:
    """Is marked, with the way it goes."""
    heading, _ = drawn(140, FULL, view=TopView(sort=SortKey.MEMORY))
    assert "memory▼" in heading
    view = TopView(sort=SortKey.MEMORY, backwards=True)
    assert "memory▲" in drawn(140, FULL, view=view)[0]


def test_rows_from_the_first_that_is_seen() -> None:
    """With the selected one marked."""
    jobs = [listed(f"job-{n}") for n in range(20)]
    lines = drawn(40, *jobs, view=TopView(first=5, position=6))
    assert lines[1].startswith("  job-5 ")
    assert lines[2].startswith("> job-6 ")
    assert len(lines) == 10


@given(LISTS, st.integers(1, 120), st.sampled_from(SortKey))
def test_it_is_never_wider_than_the_screen(
    jobs: list[dict[str, Any]], width: int, sort: SortKey
) -> None:
    """Nor has it anything for a terminal to obey."""
    for line in drawn(width, *jobs, view=TopView(sort=sort)):
        assert cell_len(line) <= width or width < 3
        assert line.isprintable() or not any(ord(c) < 0x20 for c in line)


@given(st.floats(-1, 2), st.integers(1, 30))
def test_a_bar(share: float, width: int) -> None:
    """As wide as it should be; only what is full looks full, only nothing empty."""
    bar = share_bar(share, width)
    assert len(bar) == width
    assert ("█" in bar) == (share > 0)
    if width > 1:
        assert ("░" in bar) == (share < 1)


def test_figures() -> None:
    """A unit is said once."""
    assert size_of_limit(212 * MIB, 280 * MIB) == "212 of 280 MiB"
    assert size_of_limit(1, 280 * MIB, about=True) == "1 bytes of about 280 MiB"
    estimate = AllocatorStatus(source="estimate")
    job = listed(
        "a", memory_in_use_bytes=MIB, memory_limit_bytes=2 * MIB, allocator=estimate
    )
    assert "███░░░ 1 of about 2 MiB" in drawn(80, job)[1]
    assert "1 MiB   ▁" in drawn(80, listed("a", memory_in_use_bytes=MIB))[1]
    assert step_time(listed("a", step_seconds=75.0)) == "1 min 15 s"


def test_sparklines() -> None:
    """The lowest and the highest value are the ends; a flat line is flat."""
    assert sparkline([]) == ""
    assert sparkline([1, 2, 3]) == "▁▅█"
    assert sparkline([7, 7]) == "▁▁"


def test_a_loss_of_another_step_has_it_beside_it() -> None:
    """The row's step is newer than the last look at the loss."""
    _, row = drawn(140, FULL | {"loss_step": 5})
    assert "0.2500 at step 5" in row
    _, row = drawn(140, FULL | {"loss_step": 7})
    assert "at step" not in row
    _, row = drawn(80, FULL | {"loss_step": 5})
    assert "0.2500  " in row


def test_what_a_job_failed_by() -> None:
    """Where there is room, and as long as it has not come to its end all the same."""
    error = ErrorStatus(attempt=1, cause="user_error", text="ValueError: no\x1bcolumn")
    gave_up = listed("digits", state=JobState.GAVE_UP, last_error=error)
    heading, row = drawn(140, gave_up)
    assert heading.split()[-1] == "error"
    assert "ValueError: no" in row
    assert "\x1b" not in row
    over = listed("digits", state=JobState.FINISHED, last_error=error)
    assert "error" not in drawn(140, over)[0]
