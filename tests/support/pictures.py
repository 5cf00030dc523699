"""Pictures of the dashboards for the documents: ``make pictures``.

A rendering, not a screenshot: the answers are those that a real Prometheus gave to the
panels' own queries while two real boxes were at work (``tests.support.night``), in the
dashboards' own arrangement, units, limits and names; drawn by matplotlib.
"""

import datetime as dt
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from grafana.boards.board import Board, BoardPanel, BoardRow, Kind, Placed, Query
from grafana.boards.every_board import BOARDS
from tests.support.fake_nvml import build
from tests.support.night import Night, asked, night, worsen
from tests.support.prometheus import Result, results
from tests.support.script_packages import script_package

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
CELL_WIDTH, CELL_HEIGHT = 0.72, 0.36
"""Of a cell of Grafana's grid, in inches."""
GAP = 0.06
DOTS = 80
PAPER, PANEL, INK, FAINT = "#111217", "#181b1f", "#ccccdc", "#8e8e99"
COLOURS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c",
           "blue": "#5794f2", "text": "#ccccdc"}  # fmt: skip
LINES = ("#73bf69", "#fade2a", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff",
         "#37872d", "#e0b400", "#c4162a")  # fmt: skip
MOST_LINES, MOST_ROWS = 9, 9
WORK_SECONDS, FAULT_SECONDS = 150.0, 45.0
SAID = (
    "A rendering by `make pictures`: real answers of a real Prometheus to this dashboard's "
    "queries, drawn by matplotlib in its arrangement; not a screenshot of Grafana."
)

Canvas = Any
"""Figures and axes: matplotlib's types tell half of what they take."""
mpl: Canvas = script_package("matplotlib")
new_figure: Canvas = script_package("matplotlib.figure").Figure
dates: Canvas = script_package("matplotlib.dates")
ticker: Canvas = script_package("matplotlib.ticker")
Ask = Callable[[Query, Kind], list[Result]]


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One line: what it is called, when, and how much."""

    name: str
    labels: Mapping[str, str]
    times: Sequence[float]
    values: Sequence[float]


def legend_of(text: str, labels: Mapping[str, str]) -> str:
    """A legend, filled in as Grafana does."""
    filled = re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text)
    return " ".join(filled.replace("127.0.0.1:", "box:").split())


def series_of(query: Query, found: list[Result]) -> Iterator[ChartSeries]:
    """The answers to one query."""
    for one in found:
        points = one.get("values") or [one["value"]]
        yield ChartSeries(
            name=legend_of(query.legend, one["metric"]),
            labels=one["metric"],
            times=[float(at) for at, _ in points],
            values=[float(value) for _, value in points],
        )


_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def written(value: float, unit: str) -> str:
    """A value with its unit, as people read it."""
    if value != value:  # noqa: PLR0124  # NaN
        return "NaN"
    if unit in _UNITS:
        return _UNITS[unit](value)
    return _scaled(value).strip()


def _scaled(value: float) -> str:
    for size, letter in _SCALES:
        if abs(value) >= (size if size > 1e3 else 10 * size):
            return f"{value / size:.3g} {letter}"
    return f"{value:.4g} "


def _binary(value: float) -> str:
    for place, letter in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if abs(value) >= 1024**place:
            return f"{value / 1024**place:.3g} {letter}B"
    return f"{value:.3g} B"


def _duration(value: float) -> str:
    for size, letter in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(value) >= 2 * size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g} s" if abs(value) >= 1 or not value else f"{1e3 * value:.3g} ms"


_UNITS: dict[str, Callable[[float], str]] = {
    "percentunit": lambda value: f"{100 * value:.3g} %",
    "s": _duration,
    "h": lambda value: f"{value:.3g} h",
    "celsius": lambda value: f"{value:.3g} °C",
    "bytes": _binary,
    "Bps": lambda value: f"{_binary(value)}/s",
    "hertz": lambda value: f"{_scaled(value)}Hz",
    "watt": lambda value: f"{_scaled(value)}W",
}


def colour_of(panel: BoardPanel, value: float) -> str:
    """By the panel's limits."""
    chosen = "blue"
    for limit, colour in panel.limits:
        if limit is None or value >= limit:
            chosen = colour
    return COLOURS[chosen]


def drawn(board: Board, ask: Ask, about: str) -> Canvas:
    """The whole dashboard."""
    placed = list(board.placed())
    height = max(one.y + _height(one.what) for one in placed) + 2
    figure: Canvas = new_figure(
        figsize=(24 * CELL_WIDTH, height * CELL_HEIGHT), facecolor=PAPER
    )

    def text(y: float, words: str, size: float, colour: str, weight: str) -> None:
        figure.text(
            *(0.004, 1 - y / height, words),
            color=colour, fontsize=size, fontweight=weight, va="center",
        )  # fmt: skip

    text(0.5, f"{board.title}   {about}", 13, INK, "bold")
    text(height - 0.4, SAID, 8.5, FAINT, "normal")
    for one in placed:
        if isinstance(one.what, BoardRow):
            text(one.y + 1.6, f"▾ {one.what.title}", 11, INK, "bold")
        else:
            place = _place(one, one.what, height)
            _draw(figure, place, one.what, ask)
    return figure


def _height(what: BoardRow | BoardPanel) -> int:
    return what.height if isinstance(what, BoardPanel) else 1


def _place(
    one: Placed, panel: BoardPanel, height: int
) -> tuple[float, float, float, float]:
    """In parts of the figure: left, bottom, width, height."""
    return (
        (one.x + GAP) / 24,
        1 - (one.y + 1 + panel.height - GAP) / height,
        (panel.width - 2 * GAP) / 24,
        (panel.height - 2 * GAP) / height,
    )


def _draw(
    figure: Canvas,
    place: tuple[float, float, float, float],
    panel: BoardPanel,
    ask: Ask,
) -> None:
    frame = figure.add_axes(place, facecolor=PANEL)
    frame.set_xticks([])
    frame.set_yticks([])
    for spine in frame.spines.values():
        spine.set_color("#2c3235")
    title = 1 - 0.5 / panel.height
    frame.text(*(0.012, title, panel.title), color=INK, fontsize=9, fontweight="bold",
               va="center", transform=frame.transAxes)  # fmt: skip
    found = [ask(query, panel.kind) for query in panel.queries]
    lines = [
        line
        for query, those in zip(panel.queries, found, strict=True)
        for line in series_of(query, those)
    ]
    if not lines:
        because = panel.empty_because or "no data"
        frame.text(*(0.5, 0.45, f"none: {because}"), color=FAINT, fontsize=9,
                   ha="center", transform=frame.transAxes)  # fmt: skip
        return
    match panel.kind:
        case Kind.STAT:
            _stat(frame, panel, lines)
        case Kind.TABLE:
            _table(frame, panel, found)
        case _:
            left, bottom, width, height = place
            share = min(len(lines), MOST_LINES) * 0.42 / panel.height
            share = 0.0 if panel.kind is Kind.TIMELINE else min(share, 0.42)
            pad = 0.22 if panel.kind is Kind.TIMELINE else 0.9 / panel.width
            inner = (
                left + pad * width,
                bottom + (share + 0.09) * height,
                (0.975 - pad) * width,
                (1 - share - 0.09 - 1.05 / panel.height) * height,
            )
            chart = figure.add_axes(inner, facecolor=PANEL)
            _styled(chart)
            if panel.kind is Kind.TIMELINE:
                _timeline(chart, panel, lines)
            else:
                _chart(chart, panel, lines)
                _legend(frame, panel, lines, share)


def _styled(chart: Canvas) -> None:
    chart.tick_params(colors=FAINT, labelsize=7, length=0)
    chart.grid(color="#25282c", linewidth=0.6)
    chart.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    chart.xaxis.set_major_locator(ticker.MaxNLocator(5))
    for spine in chart.spines.values():
        spine.set_visible(False)


def _at(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _chart(chart: Canvas, panel: BoardPanel, lines: list[ChartSeries]) -> None:
    for place, line in enumerate(lines):
        colour = LINES[place % len(LINES)]
        times: list[Any] = [_at(one) for one in line.times]
        chart.plot(times, list(line.values), color=colour, linewidth=1.1)
    if panel.least is not None:
        chart.set_ylim(bottom=panel.least)
    if panel.most is not None:
        chart.set_ylim(top=panel.most * 1.03)
    bottom, top = chart.get_ylim()
    if panel.banded:
        chart.set_ylim(top=max(top, panel.highest))
        _, top = chart.get_ylim()
        _bands(chart, panel, bottom, top)
    for limit, colour in panel.limits:
        if limit is not None and limit <= top:
            chart.axhline(limit, color=COLOURS[colour], linewidth=0.7, linestyle="--")
    chart.yaxis.set_major_locator(ticker.MaxNLocator(4))
    chart.yaxis.set_major_formatter(ticker.FuncFormatter(partial(_tick, panel.unit)))


def _bands(chart: Canvas, panel: BoardPanel, bottom: float, top: float) -> None:
    begins = [bottom if limit is None else limit for limit, _ in panel.limits]
    for (_, colour), below, above in zip(
        panel.limits, begins, [*begins[1:], top], strict=True
    ):
        chart.axhspan(below, above, color=COLOURS[colour], alpha=0.12, linewidth=0)


def _tick(unit: str, value: float, _place: int) -> str:
    return written(value, unit)


def _legend(
    frame: Canvas, panel: BoardPanel, lines: list[ChartSeries], share: float
) -> None:
    shown = lines[:MOST_LINES]
    step = share / max(len(shown), 1)
    for place, line in enumerate(shown):
        y = share - (place + 0.4) * step
        value = written(line.values[-1], panel.unit)
        more = len(lines) - len(shown)
        if place == len(shown) - 1 and more:
            value += f"   … and {more} more"
        frame.text(*(0.02, y, "━"), color=LINES[place % len(LINES)], fontsize=7,
                   va="center", transform=frame.transAxes)  # fmt: skip
        frame.text(*(0.055, y, f"{line.name}  {value}"), color=INK, fontsize=6.5,
                   va="center", transform=frame.transAxes, clip_on=True)  # fmt: skip


def _timeline(chart: Canvas, panel: BoardPanel, lines: list[ChartSeries]) -> None:
    colours = {value: colour for value, (_, colour) in panel.names.items()}
    step = 1.5
    for place, line in enumerate(lines):
        bars: list[Any] = [(_at(one), dt.timedelta(seconds=step)) for one in line.times]
        colour = COLOURS[colours.get(f"{line.values[-1]:.0f}", "blue")]
        chart.broken_barh(bars, (place - 0.35, 0.7), facecolors=colour, linewidth=0)
    chart.set_yticks(range(len(lines)), [line.name for line in lines])
    chart.set_ylim(len(lines) - 0.5, -0.5)


def _stat(frame: Canvas, panel: BoardPanel, lines: list[ChartSeries]) -> None:
    shown = sorted(lines, key=lambda line: -line.values[-1])[: 3 * panel.width]
    longest = max(len(line.name) for line in shown)
    columns = min(len(shown), max(int(panel.width / max(longest * 0.085, 1.6)), 1))
    rows = -(-len(shown) // columns)
    top = 1 - 0.9 / panel.height
    for place, line in enumerate(shown):
        x = (place % columns + 0.5) / columns
        y = top * (1 - (place // columns + 0.5) / rows)
        value = line.values[-1]
        name, colour = written(value, panel.unit), colour_of(panel, value)
        if f"{value:.0f}" in panel.names:
            name, chosen = panel.names[f"{value:.0f}"]
            colour = COLOURS[chosen]
        if panel.by_name:
            name = line.name.partition(" (")[0]
        big = max(7.0, min(20.0, 46.0 * panel.width / columns / max(len(name), 3) / 2))
        size = min(big, 20.0 / rows + 3)
        lower = 0.34 * top / rows
        frame.text(*(x, y + lower / 3, name), color=colour, fontsize=size, ha="center",
                   va="center", fontweight="bold", transform=frame.transAxes)  # fmt: skip
        frame.text(*(x, y - lower, line.name[-44:]), color=FAINT, fontsize=6, ha="center",
                   va="center", transform=frame.transAxes)  # fmt: skip


def _merged(panel: BoardPanel, found: list[list[Result]]) -> list[dict[str, str]]:
    """Rows of a table: answers whose common labels are equal are one."""
    rows: list[tuple[dict[str, str], dict[str, str]]] = []
    for query, those in zip(panel.queries, found, strict=True):
        before = len(rows)
        for one in those:
            labels: dict[str, str] = {
                name: text
                for name, text in one["metric"].items()
                if name not in panel.drop
            }
            unit = panel.units.get(query.title, "short")
            said = {query.title: written(float(one["value"][1]), unit)}
            value: dict[str, str] = {} if query.title in panel.drop else said
            same = [row for row in rows[:before] if _agree(row[0], labels)]
            known = same[0] if same else (labels, value)
            if not same:
                rows.append(known)
            known[0].update(labels)
            known[1].update(value)
    return [{**labels, **values} for labels, values in rows]


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _table(frame: Canvas, panel: BoardPanel, found: list[list[Result]]) -> None:
    rows = _merged(panel, found)[:MOST_ROWS]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    top = 1 - 1.2 / panel.height
    lines = [dict(zip(columns, columns, strict=True)), *rows]
    step = min(top / (len(lines) + 0.5), 0.8 / panel.height)
    widths = [
        max(len(_shown(row.get(name, ""))) for row in lines) + 2 for name in columns
    ]
    starts = [sum(widths[:column]) / sum(widths) for column in range(len(columns))]
    for place, row in enumerate(lines):
        y = top - (place + 0.4) * step
        for start, name in zip(starts, columns, strict=True):
            value = _shown(row.get(name, ""))
            colour = FAINT if place == 0 else INK
            if place and value in panel.names:
                value, chosen = panel.names[value]
                colour = COLOURS[chosen]
            frame.text(
                *(0.012 + 0.98 * start, y, value),
                color=colour,
                fontsize=min(7.5, 66 * panel.width / sum(widths) * 0.62),
                fontweight="bold" if place == 0 else "normal",
                va="center",
                transform=frame.transAxes,
            )


def _shown(value: str) -> str:
    return value.replace("127.0.0.1:", "box:")


def saved(figure: Canvas, path: Path) -> None:
    """As a small file: few colours are enough."""
    figure.savefig(path, dpi=DOTS, facecolor=PAPER, metadata={"Software": None})
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(colors=96)
    small.save(path, optimize=True)


CHOSEN = {
    "trainwarden-fleet": (None, "both boxes"),
    "trainwarden-box": (1, "the box on which much fails"),
    "trainwarden-run": (0, "a training that crashed and was resumed"),
    "trainwarden-memory": (0, "the same training"),
    "trainwarden-gpu": (1, "two GPUs, one of which goes from bad to worse"),
}
"""Which of the boxes is chosen, and what it is."""


def picture(board: Board, made: Night, began: float) -> Canvas:
    """The dashboard as it is now, since ``began``."""
    place, about = CHOSEN[board.uid]
    ends = time.time()
    step = max((ends - began) / 200, 1.0)
    chosen = "|".join(made.boxes) if place is None else made.boxes[place]

    def ask(query: Query, kind: Kind) -> list[Result]:
        text = asked(query.expr, instance=chosen).replace("[1m]", "[20s]")
        if kind in {Kind.STAT, Kind.TABLE}:
            return results(made.prometheus, text)
        return results(made.prometheus, text, start=began, end=ends, step=step)

    return drawn(board, ask, f"({about})")


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        sys.exit(f"{name} is not installed")
    return path


def main() -> None:
    """Draw them all."""
    mpl.rcParams["font.family"] = "DejaVu Sans"
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        library = where / "nvml"
        library.mkdir()
        began = time.time()
        with night(where, build(library), _found) as made:
            time.sleep(WORK_SECONDS)
            worsen(made)
            time.sleep(FAULT_SECONDS)
            for board in BOARDS:
                path = PICTURES / f"{board.uid.removeprefix('trainwarden-')}.png"
                saved(picture(board, made, began), path)


if __name__ == "__main__":
    main()
