"""The newest readings of the allocator: on the page and back, and what they lead to."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.page import PageWriter, read_page
from supervisor.wire.readings import INTEGERS, RECENT, AllocatorReading, pack, unpack

NUMBERS = st.integers(0, 2**62)
KNOWN = st.none() | NUMBERS
READINGS = st.lists(
    st.builds(
        AllocatorReading,
        ns=st.integers(1, 2**62),
        step=NUMBERS,
        in_use=NUMBERS,
        peak=NUMBERS,
        limit=KNOWN,
        largest_allocatable=KNOWN,
        largest_request=KNOWN,
    ),
    unique_by=lambda one: one.ns,
    max_size=2 * RECENT,
)


@given(READINGS)
def test_the_newest_come_back(readings: list[AllocatorReading]) -> None:
    """As many as there is room for, in their order, with what is not known."""
    readings.sort(key=lambda one: one.ns)
    packed = pack(readings)
    assert len(packed) == INTEGERS
    assert unpack(packed, after_ns=0) == readings[-RECENT:]


def test_only_what_is_new_is_taken() -> None:
    """A reader that knows some of them gets the others."""
    readings = [
        AllocatorReading(ns=at, step=at, in_use=at, peak=at) for at in range(1, 9)
    ]
    assert unpack(pack(readings), after_ns=5) == readings[5:]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=INTEGERS + 3))
def test_whatever_lies_there_hurts_nobody(integers: list[int]) -> None:
    """Foreign numbers are readings of something, or none."""
    found = unpack(integers, after_ns=0)
    assert [one.ns for one in found] == sorted(one.ns for one in found)


def test_they_lie_on_the_page(tmp_path: Path) -> None:
    """A page without any says none."""
    readings = [AllocatorReading(ns=7, step=1, in_use=2, peak=3, limit=4)]
    writer = PageWriter(tmp_path / "page")
    page = read_page(tmp_path / "page")
    assert page is not None
    assert unpack(page.memory_recent, after_ns=0) == []
    writer.set(memory_recent=pack(readings))
    page = read_page(tmp_path / "page")
    assert page is not None
    assert unpack(page.memory_recent, after_ns=0) == readings
