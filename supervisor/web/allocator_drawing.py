"""The allocator's map, drawn to scale; below it what was asked for beside what was free.

All blocks of the lower picture have one scale: where the bar of the request is longer than
that of every free block, no block could hold it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from supervisor.core.memory.bfc_map import Chunk
from supervisor.core.memory.chart import Fill, cells
from supervisor.core.text.units import format_size
from supervisor.web.line_chart import scrolling
from supervisor.web.markup import Element, tag

WIDTH = 960
ROWS = 8
ROW_HEIGHT, GAP = 22, 4
BLOCKS = 12
"""Free blocks that are drawn beside the request, the largest first."""
NAMES = {
    Fill.VARIABLES: "variables",
    Fill.USED: "in use",
    Fill.FREE: "free",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbouring pixels of a row with the same fill."""

    row: int
    start: int
    width: int
    fill: Fill


def stretches(
    chunks: Sequence[Chunk], labels: Mapping[int, str], *, width: int = WIDTH
) -> list[Stretch]:
    """The pool in ``ROWS`` rows, a pixel for each equal part of it."""
    picture = cells(chunks, labels, count=width * ROWS)
    found: list[Stretch] = []
    for row in range(ROWS):
        start = 0
        one_row = picture[row * width : (row + 1) * width]
        for fill, same in groupby(one_row, attrgetter("fill")):
            length = len(list(same))
            found.append(Stretch(row=row, start=start, width=length, fill=fill))
            start += length
    return found


def map_figure(chunks: Sequence[Chunk], labels: Mapping[int, str]) -> Element:
    """Every chunk in its place."""
    pool = sum(chunk.size for chunk in chunks)
    held = dict.fromkeys(Fill, 0)
    counts = dict.fromkeys(Fill, 0)
    for chunk in chunks:
        fill = Fill.FREE if not chunk.in_use else _used(chunk, labels)
        held[fill] += chunk.size
        counts[fill] += 1
    drawn = stretches(chunks, labels)
    words = "; ".join(
        f"{NAMES[fill]}: {format_size(size)} in {counts[fill]} chunks"
        for fill, size in held.items()
        if counts[fill]
    )
    height = ROWS * (ROW_HEIGHT + GAP)
    title = "The allocator's pool, in the order of addresses"
    about = f"{format_size(pool)} in all. {words}. A row is {format_size(pool / ROWS)}."
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "ul",
            [
                tag(
                    "li",
                    tag("span", class_=f"key fill-{fill}"),
                    f"{NAMES[fill]} {format_size(held[fill])}",
                )
                for fill in Fill
                if counts[fill]
            ],
            class_="legend",
        ),
        tag(
            "svg",
            tag("title", title, id="map-title"),
            tag("desc", about, id="map-words"),
            [
                tag(
                    "rect",
                    x=one.start,
                    y=one.row * (ROW_HEIGHT + GAP),
                    width=one.width,
                    height=ROW_HEIGHT,
                    class_=f"fill-{one.fill}",
                )
                for one in drawn
            ],
            viewBox=f"0 0 {WIDTH} {height}",
            preserveAspectRatio="none",
            role="img",
            aria_labelledby="map-title map-words",
            class_="map",
        ),
        tag("p", about, class_="note"),
        class_="wide",
    )


def _used(chunk: Chunk, labels: Mapping[int, str]) -> Fill:
    return Fill.VARIABLES if chunk.address in labels else Fill.USED


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One block, to the scale of the others."""

    label: str
    bytes: int
    kind: str
    """``asked`` or ``free``."""


def bars(free: Iterable[int], *, requested_bytes: int | None) -> list[Bar]:
    """The request, and the largest free blocks."""
    blocks = sorted(free, reverse=True)[:BLOCKS]
    found = [
        Bar(label="largest free" if n == 1 else f"free, {n}.", bytes=size, kind="free")
        for n, size in enumerate(blocks, 1)
    ]
    if requested_bytes is None:
        return found
    return [Bar(label="asked for", bytes=requested_bytes, kind="asked"), *found]


LABEL, FIGURE, BAR_HEIGHT = 104, 84, 22
BARS_WIDTH = 480


def blocks_figure(
    free: Sequence[int], *, requested_bytes: int | None, growth_bytes: int | None
) -> Element:
    """Free blocks side by side with what was asked for."""
    drawn = bars(free, requested_bytes=requested_bytes)
    if not drawn:
        return tag("p", "No block was free.")
    most = max(bar.bytes for bar in drawn) or 1
    scale = (BARS_WIDTH - LABEL - FIGURE) / most
    about = blocks_sentence(
        free, requested_bytes=requested_bytes, growth_bytes=growth_bytes
    )
    parts: list[Element] = []
    for index, bar in enumerate(drawn):
        y, width = index * BAR_HEIGHT, max(bar.bytes * scale, 0.5)
        parts += [
            tag("text", bar.label, x=LABEL - 8, y=y + 15, class_="block-label"),
            tag("rect", x=LABEL, y=y + 3, width=width, height=BAR_HEIGHT - 6,
                class_=f"block {bar.kind}"),
            tag("text", format_size(bar.bytes), x=LABEL + width + 6, y=y + 15,
                class_="block-figure"),
        ]  # fmt: skip
    height = len(drawn) * BAR_HEIGHT + 4
    if requested_bytes is not None:
        x = LABEL + requested_bytes * scale
        parts.append(tag("line", x1=x, x2=x, y1=0, y2=height, class_="asked-line"))
    title = "What was asked for, beside the free blocks"
    rows = [
        tag("tr", tag("th", bar.label, scope="row"), tag("td", f"{bar.bytes:,}"))
        for bar in drawn
    ]
    head = tag("tr", tag("th", "block", scope="col"), tag("th", "bytes", scope="col"))
    table = tag("table", tag("thead", head), tag("tbody", rows))
    return tag(
        "figure",
        tag("figcaption", title),
        tag("p", about, class_="finding"),
        tag(
            "svg",
            tag("title", title, id="blocks-title"),
            tag("desc", about, id="blocks-words"),
            parts,
            viewBox=f"0 0 {BARS_WIDTH} {height}",
            role="img",
            aria_labelledby="blocks-title blocks-words",
        ),
        tag(
            "details", tag("summary", "The blocks as a table"), scrolling(title, table)
        ),
    )


def blocks_sentence(
    free: Sequence[int], *, requested_bytes: int | None, growth_bytes: int | None
) -> str:
    """What the bars show, said."""
    whole, largest = sum(free), max(free, default=0)
    there = f"{format_size(whole)} were free in {len(free)} blocks"
    if requested_bytes is None:
        return f"{there}, the largest of {format_size(largest)}."
    asked = format_size(requested_bytes)
    grows = (growth_bytes or 0) >= requested_bytes
    if largest >= requested_bytes:
        return f"{asked} were asked for; {there}, and the largest would have held them."
    if whole >= requested_bytes and not grows:
        return (
            f"{asked} were asked for and {there}, but no free block is as large as the "
            f"request: the largest has {format_size(largest)}."
        )
    return (
        f"{asked} were asked for, and {there}: no free block is as large as the "
        f"request, the largest has {format_size(largest)}."
    )
