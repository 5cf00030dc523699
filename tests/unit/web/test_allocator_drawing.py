"""The map and the blocks: what is drawn is what is there."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.memory.bfc_map import Chunk
from supervisor.core.memory.chart import Fill
from supervisor.web.allocator_drawing import (
    BLOCKS,
    ROWS,
    WIDTH,
    bars,
    blocks_sentence,
    stretches,
)
from supervisor.web.phase_bar import TimeSpent
from supervisor.web.run_view import goodput_text

SIZES = st.lists(
    st.tuples(st.integers(1, 10**9), st.booleans()), min_size=1, max_size=60
)


@given(SIZES)
def test_the_map_is_drawn_to_scale(sizes: list[tuple[int, bool]]) -> None:
    """Each row is full, without gap or overlap; what is free has its share, to a pixel a
    block and row."""
    at, chunks = 0, list[Chunk]()
    for size, in_use in sizes:
        chunks.append(Chunk(address=at, size=size, requested_size=size, in_use=in_use))
        at += size
    drawn = stretches(chunks, {})
    for row in range(ROWS):
        here = [one for one in drawn if one.row == row]
        assert (here[0].start, here[-1].start + here[-1].width) == (0, WIDTH)
        assert all(a.start + a.width == b.start for a, b in pairwise(here))
    free = sum(one.width for one in drawn if one.fill is Fill.FREE)
    share = sum(size for size, in_use in sizes if not in_use) / at * WIDTH * ROWS
    assert abs(free - share) <= len(sizes) + 1


@given(st.lists(st.integers(1, 10**9), max_size=40), st.integers(1, 10**9))
def test_the_request_and_the_largest_blocks(free: list[int], asked: int) -> None:
    """The largest first; the sentence says that none is as large exactly where none is."""
    drawn = bars(free, requested_bytes=asked)
    assert (drawn[0].kind, drawn[0].bytes) == ("asked", asked)
    assert [one.bytes for one in drawn[1:]] == sorted(free, reverse=True)[:BLOCKS]
    said = blocks_sentence(free, requested_bytes=asked, growth_bytes=0)
    assert ("no free block is as large" in said) == (max(free, default=0) < asked)


def test_goodput() -> None:
    """Steps and validation less steps done again, by all the time there was."""
    phases = {"training": 30.0, "validating": 10.0, "replaying": 5.0, "starting": 20.0}
    spent = TimeSpent(phases=phases, elapsed_seconds=80.0, steps=9, step_seconds=35.0)
    assert spent.goodput == 0.5
    assert spent.all["waiting"] == 15.0
    assert TimeSpent(phases={}, elapsed_seconds=0.0, steps=1).goodput is None


def test_goodput_of_an_epoch_that_runs() -> None:
    """A phase counts when it is over; steps count when they are done."""
    spent = TimeSpent(phases={}, elapsed_seconds=80.0, steps=9, step_seconds=60.0)
    assert spent.goodput == 0.75


def test_goodput_is_unknown_where_no_step_was_timed() -> None:
    """A loop of the script's own that nobody can follow may have trained all the time."""
    spent = TimeSpent(phases={"between": 70.0}, elapsed_seconds=80.0)
    assert spent.goodput is None


def test_goodput_says_what_it_does_not_know() -> None:
    """Loops that are not counted make it unknown, or a lower bound; never a wrong figure."""
    uncounted = TimeSpent(phases={"between": 70.0}, elapsed_seconds=80.0)
    assert goodput_text(uncounted) == "unknown: no steps were counted"
    timed = replace(uncounted, steps=9, step_seconds=8.0)
    assert goodput_text(timed) == "at least 10%"
    assert goodput_text(replace(timed, phases={"between": 1.0})) == "10%"
    assert goodput_text(TimeSpent(phases={}, elapsed_seconds=0.0)) is None
