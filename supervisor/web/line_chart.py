"""A line chart in SVG, with its legend, its figures as a table, and its words for who
does not see it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from supervisor.web.markup import Element, Node, tag
from supervisor.web.scales import Form, Scale, figure, ticks

WIDTH, HEIGHT = 480, 272
LEFT, RIGHT, TOP, BOTTOM = 92, 12, 36, 56
"""Margins with room for the largest letters, those of a narrow window (``theme.css``)."""
MARK_LINE, TICK_LINE, NAME_LINE = 14, HEIGHT - 28, HEIGHT - 8
"""Where the labels of marks stand, those of the ticks across, and their name: each in a
line of its own."""
LETTER = 10
"""Width of a label's letter there, in the units of the picture."""
TICKS = 6
ROWS = 12
"""Of the table beside it, at most."""

Point = tuple[float, float]
Segments = tuple[tuple[Point, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve; a gap between two segments, of two attempts say, is not drawn."""

    label: str
    tone: int
    """From 1: which colour, and which dashes."""
    segments: Segments

    @property
    def points(self) -> tuple[Point, ...]:
        """All of them."""
        return tuple(chain.from_iterable(self.segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something happened at ``x``."""

    x: float
    label: str
    """Short: ``#3``."""
    about: str
    href: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit at ``y``."""

    y: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """How values are written; ``unit`` divides them for round ticks."""

    name: str
    head: str = ""
    """Above the column of its table, where values are written with their units; empty: as
    its ``name``."""
    form: Form = figure
    factor: float = 1.0
    suffix: str = ""
    from_zero: bool = False

    def tick(self, value: float) -> str:
        """A tick's text."""
        return f"{figure(value / self.factor)}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture of curves."""

    id: str
    title: str
    lines: tuple[Line, ...]
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    bounds: tuple[Bound, ...] = ()
    x_span: tuple[float, ...] = ()
    """What the picture reaches to at least."""

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return any(line.points for line in self.lines)

    def draw(self) -> Element:
        """The figure; a sentence where nothing is known."""
        lines = [line for line in self.lines if line.points]
        if not lines:
            text = "Nothing was measured."
            return tag("figure", tag("figcaption", self.title), tag("p", text))
        return tag(
            "figure",
            tag("figcaption", self.title),
            _legend(lines),
            self._picture(lines),
            self._table(lines),
            class_="chart",
        )

    def _picture(self, lines: Sequence[Line]) -> Element:
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points]
        xs += [*(mark.x for mark in self.marks), *self.x_span]
        ys += [bound.y for bound in self.bounds]
        across = Scale(low=min(xs), high=max(xs), start=LEFT, end=WIDTH - RIGHT)
        low, high = self._span(ys)
        up = Scale(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)
        return tag(
            "svg",
            tag("title", self.title, id=f"{self.id}-title"),
            tag("desc", self._words(lines), id=f"{self.id}-words"),
            self._grid(across, up),
            [_bound(bound, up) for bound in self.bounds],
            _marks(self.marks, across),
            [part for line in lines for part in _curve(line, across, up)],
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_labelledby=f"{self.id}-title {self.id}-words",
        )

    def _span(self, ys: Sequence[float]) -> tuple[float, float]:
        low, high = min(ys), max(ys)
        if self.y.from_zero:
            return 0.0, high * 1.06 or 1.0
        margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        return low - margin, high + margin

    def _grid(self, across: Scale, up: Scale) -> list[Element]:
        y_factor = self.y.factor
        levels = [v * y_factor for v in ticks(up.low / y_factor, up.high / y_factor)]
        found = [
            tag(
                "line",
                x1=LEFT,
                x2=WIDTH - RIGHT,
                y1=up.at(v),
                y2=up.at(v),
                class_="grid",
            )
            for v in levels
        ]
        found += [
            tag("text", self.y.tick(v), x=LEFT - 7, y=up.at(v) + 4, class_="y-tick")
            for v in levels
        ]
        found += [
            tag("text", text, x=x, y=TICK_LINE, class_="x-tick")
            for x, text in self._ticks_across(across)
        ]
        name = tag("text", self.x.name, x=WIDTH - RIGHT, y=NAME_LINE, class_="x-name")
        return [*found, name]

    def _ticks_across(self, across: Scale) -> list[tuple[float, str]]:
        """As many as stand beside each other, and where."""
        factor = self.x.factor
        found: list[tuple[float, str]] = []
        for count in range(TICKS, 0, -1):
            values = ticks(across.low / factor, across.high / factor, count=count)
            texts = [(across.at(v * factor), self.x.tick(v * factor)) for v in values]
            found = [(_inside(x, text), text) for x, text in texts]
            if all(_apart(*pair) for pair in pairwise(found)):
                break
        return found

    def _words(self, lines: Sequence[Line]) -> str:
        """What one would see."""
        said = [f"By {self.x.name}."]
        for line in lines:
            ys = [y for _, y in line.points]
            form = self.y.form
            said.append(
                f"{line.label}: from {form(ys[0])} to {form(ys[-1])}, lowest "
                f"{form(min(ys))}, highest {form(max(ys))}."
            )
        said += [f"{one.label}: {self.y.form(one.y)}." for one in self.bounds]
        said += [f"{mark.about}." for mark in self.marks]
        return " ".join(said)

    def _table(self, lines: Sequence[Line]) -> Element:
        heads = [self.x.head or self.x.name, *(line.label for line in lines)]
        known = [dict(line.points) for line in lines]
        xs = sorted({x for points in known for x in points})
        rows = [
            tag(
                "tr",
                tag("th", self.x.form(x), scope="row"),
                [
                    tag("td", self.y.form(points[x]) if x in points else "")
                    for points in known
                ],
            )
            for x in spread(xs, ROWS)
        ]
        head = tag("tr", [tag("th", text, scope="col") for text in heads])
        table = tag("table", tag("thead", head), tag("tbody", rows))
        return tag(
            "details",
            tag("summary", f"{self.title} as a table"),
            scrolling(self.title, table),
        )


def scrolling(name: str, table: Element) -> Element:
    """A table that may be wider than the screen, and can be moved by keys."""
    label = f"{name}, table"
    return tag(
        "div", table, class_="scroll", tabindex=0, role="region", aria_label=label
    )


def spread(values: Sequence[float], most: int) -> list[float]:
    """At most so many of ``values``, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(index * last / (most - 1))] for index in range(most)]


def _legend(lines: Iterable[Line]) -> Element:
    return tag(
        "ul",
        [
            tag("li", tag("span", class_=f"key tone-{line.tone}"), line.label)
            for line in lines
        ],
        class_="legend",
    )


def _curve(line: Line, across: Scale, up: Scale) -> Iterable[Node]:
    for segment in line.segments:
        if not segment:
            continue
        places = [f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in segment]
        yield tag("path", d="M" + "L".join(places), class_=f"curve tone-{line.tone}")
        x, y = segment[-1]
        yield tag(
            "circle",
            cx=across.at(x),
            cy=up.at(y),
            r=2.5,
            class_=f"dot tone-{line.tone}",
        )


def _bound(bound: Bound, up: Scale) -> Element:
    y = up.at(bound.y)
    return tag(
        "g",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y),
        tag("text", bound.label, x=WIDTH - RIGHT, y=y - 4),
        class_="bound",
    )


def _inside(x: float, label: str) -> float:
    """Where a label at ``x`` is centred, so that none of it hangs over the side."""
    return min(x, WIDTH - LETTER * len(label) / 2)


def _apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
    """Whether two labels, each with its middle, can be told apart."""
    (left, text), (right, beside) = one, other
    return right - left >= LETTER * (len(text) + len(beside) + 1) / 2


def _marks(marks: Iterable[Mark], across: Scale) -> Iterable[Element]:
    """Each with its line; of those that stand close together the first has a label."""
    last: tuple[float, str] | None = None
    for mark in sorted(marks, key=lambda one: one.x):
        x = across.at(mark.x)
        place = _inside(x, mark.label), mark.label
        shown = last is None or _apart(last, place)
        last = place if shown else last
        yield tag(
            "g",
            tag("title", mark.about),
            tag("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM),
            tag("text", mark.label, x=place[0], y=MARK_LINE) if shown else None,
            class_="mark",
        )
