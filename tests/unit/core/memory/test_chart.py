"""The map as a picture: every byte of the pool is drawn once, in its place."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.memory.bfc_map import Chunk
from supervisor.core.memory.chart import Cell, Fill, cells


def chunk(address: int, size: int, *, in_use: bool) -> Chunk:
    """A chunk."""
    return Chunk(address=address, size=size, requested_size=size, in_use=in_use)


def test_cells_are_in_the_order_of_addresses() -> None:
    """Variables, others and what is free, each where it lies."""
    chunks = [
        chunk(300, 100, in_use=False),
        chunk(100, 100, in_use=True),
        chunk(200, 100, in_use=True),
    ]
    assert cells(chunks, {200: "kernel"}, count=6) == [
        Cell(Fill.USED, 1.0),
        Cell(Fill.USED, 1.0),
        Cell(Fill.VARIABLES, 1.0),
        Cell(Fill.VARIABLES, 1.0),
        Cell(Fill.FREE, 1.0),
        Cell(Fill.FREE, 1.0),
    ]


def test_a_cell_is_what_most_of_it_is() -> None:
    """A cell with several chunks shows the largest part."""
    chunks = [chunk(0, 30, in_use=True), chunk(30, 70, in_use=False)]
    assert cells(chunks, {}, count=1) == [Cell(Fill.FREE, 0.7)]


def test_nothing_to_draw() -> None:
    """Without a pool, or without room, there is no picture."""
    assert cells([], {}, count=5) == []
    assert cells([chunk(0, 9, in_use=True)], {}, count=0) == []


@given(
    sizes=st.lists(st.integers(0, 2**40), min_size=1, max_size=30),
    count=st.integers(1, 500),
)
def test_every_cell_is_filled(sizes: list[int], count: int) -> None:
    """Whatever the sizes, there are exactly that many cells, and none is empty."""
    chunks: list[Chunk] = []
    at = 0
    for number, size in enumerate(sizes):
        chunks.append(chunk(at, size, in_use=number % 2 == 0))
        at += size
    drawn = cells(chunks, {}, count=count)
    assert len(drawn) == (count if at else 0)
    assert all(0 < cell.part <= 1 for cell in drawn)
