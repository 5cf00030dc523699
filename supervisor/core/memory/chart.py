"""The allocator's map as a picture: equal cells of the pool, each by what fills it."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from supervisor.core.memory.bfc_map import Chunk


class Fill(enum.StrEnum):
    """What most of a cell is."""

    VARIABLES = "variables"
    """Of the model and its optimizer."""
    USED = "used"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Cell:
    """An equal part of the pool."""

    fill: Fill
    part: float
    """How much of it that is, from just above 0 to 1."""


def cells(
    chunks: Sequence[Chunk], labels: Mapping[int, str], *, count: int
) -> list[Cell]:
    """The pool in ``count`` cells, in the order of addresses; empty without a pool.

    ``labels``: names of variables by address. Regions that the allocator took one by
    one follow each other without the gaps between them.
    """
    pool = sum(chunk.size for chunk in chunks)
    if not pool or count < 1:
        return []
    size = pool / count
    found: list[dict[Fill, float]] = [{} for _ in range(count)]
    start = 0.0
    for chunk in sorted(chunks, key=lambda one: one.address):
        _spread(found, start, start + chunk.size, size, fill_of(chunk, labels))
        start += chunk.size
    return [_cell(cell, size) for cell in found]


def fill_of(chunk: Chunk, labels: Mapping[int, str]) -> Fill:
    """What a chunk is."""
    if not chunk.in_use:
        return Fill.FREE
    return Fill.VARIABLES if chunk.address in labels else Fill.USED


def _spread(
    found: list[dict[Fill, float]], start: float, end: float, size: float, fill: Fill
) -> None:
    first, last = int(start / size), min(int(end / size), len(found) - 1)
    for index in range(first, last + 1):
        inside = min(end, (index + 1) * size) - max(start, index * size)
        if inside > 0:
            found[index][fill] = found[index].get(fill, 0.0) + inside


def _cell(content: Mapping[Fill, float], size: float) -> Cell:
    fill, part = max(content.items(), key=lambda item: item[1])
    return Cell(fill, min(part / size, 1.0))
