"""Dumps of an allocator, counted: how often memory was refused after a wait."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from supervisor.host.telemetry.allocator_dump import (
    REFUSAL_MICROSECONDS,
    RefusalCounter,
    newest_age,
    refusals,
)

SECOND = 1_000_000


def test_each_wait_of_ten_seconds_is_one(tmp_path: Path) -> None:
    """As XLA's autotuning left them on a GPU: two dumps for each algorithm, whose waits
    follow one another."""
    counter = RefusalCounter(tmp_path / "dumps")
    assert counter.count() == 0
    (tmp_path / "dumps").mkdir()
    for number in range(5):
        for at in (number * 10 * SECOND, (number + 1) * 10 * SECOND - 400):
            (tmp_path / "dumps" / f"bfc_GPU_0_bfc.{1795730577339990 + at}").touch()
    assert counter.count() == 6  # of the last a wait is still to come
    assert counter.count() == 6


def test_how_long_ago_memory_was_found_nowhere(tmp_path: Path) -> None:
    """By the newest dump, which is written as the wait begins; a clock that was put back
    makes it no time in the future."""
    assert newest_age(tmp_path / "dumps", wall=1795730580.0) is None
    for at in (1795730570000000, 1795730577500000):
        (tmp_path / f"bfc_cpu.{at}").touch()
    (tmp_path / "README").touch()
    assert newest_age(tmp_path, wall=1795730580.0) == 2.5
    assert newest_age(tmp_path, wall=1795730500.0) == 0.0


@given(st.lists(st.integers(0, 10**9)))
def test_what_did_not_wait_counts_once(times: list[int]) -> None:
    """Never more than there were waits in between, in whatever order they are found."""
    count = refusals(times)
    assert count == refusals(times[::-1])
    assert (count == 0) == (not times)
    if times:
        assert count <= 1 + (max(times) - min(times)) // REFUSAL_MICROSECONDS
