"""A dashboard as a value: rows of panels, what each asks, and what it says of that."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

COLUMNS = 24
"""Grafana's grid."""
ROW_TITLE_HEIGHT = 1

BOX = 'instance=~"$instance"'
RUN = f'{BOX},run=~"$run"'
GPU = f'{BOX},gpu=~"$gpu"'
"""What a query heeds of what was chosen: equal run names on two boxes stay apart."""

GREEN, AMBER, RED, GREY, BLUE = "green", "orange", "red", "text", "blue"


class Kind(enum.StrEnum):
    """How a panel shows its answers."""

    STAT = "stat"
    TIMESERIES = "timeseries"
    TABLE = "table"
    TIMELINE = "state-timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked of Prometheus. ``title``: of its column in a table."""

    expr: str
    legend: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPanel:
    """One panel."""

    title: str
    about: str
    """What it shows, and what is good."""
    queries: tuple[Query, ...]
    kind: Kind = Kind.TIMESERIES
    unit: str = "short"
    width: int = 8
    height: int = 8
    limits: tuple[tuple[float | None, str], ...] = ()
    """From which value on it has which colour; the first from None."""
    names: Mapping[str, tuple[str, str]] = field(
        default_factory=dict[str, tuple[str, str]]
    )
    """What a value is called, and its colour."""
    least: float | None = 0.0
    most: float | None = None
    stacked: bool = False
    banded: bool = False
    """The limits are areas in a chart, not dashed lines."""
    by_name: bool = False
    """Of a figure that is 1: what it is called says all."""
    units: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the columns of a table, by their titles."""
    drop: tuple[str, ...] = ()
    """Labels that are no column of a table."""
    empty_because: str = ""
    """Why it has no data in health; empty: it always has."""

    @property
    def highest(self) -> float:
        """What the scale of a chart with bands reaches at least."""
        last = max(limit for limit, _ in self.limits if limit is not None)
        return round(1.2 * last, 3)


@dataclass(frozen=True, slots=True)
class BoardRow:
    """Panels that belong together."""

    title: str
    panels: tuple[BoardPanel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardVariable:
    """What can be chosen: the values of a label."""

    name: str
    label: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Events that every chart is marked with."""

    name: str
    expr: str
    title: str
    text: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    about: str
    rows: tuple[BoardRow, ...]
    variables: tuple[BoardVariable, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> tuple[BoardPanel, ...]:
        """All of them, row by row."""
        return tuple(panel for row in self.rows for panel in row.panels)

    def placed(self) -> Iterator["Placed"]:
        """Rows and panels with their ids and places, from left to right and down."""
        y, number = 0, 0
        for row in self.rows:
            number += 1
            yield Placed(number, row, 0, y)
            y += ROW_TITLE_HEIGHT
            x = tallest = 0
            for panel in row.panels:
                if x + panel.width > COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                number += 1
                yield Placed(number, panel, x, y)
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest

    def panel_id(self, title: str) -> int:
        """The id of the panel of that title. Raises KeyError: there is none."""
        for placed in self.placed():
            if isinstance(placed.what, BoardPanel) and placed.what.title == title:
                return placed.number
        raise KeyError(self.uid, title)


@dataclass(frozen=True, slots=True)
class Placed:
    """A row or a panel, and where it lies."""

    number: int
    what: BoardRow | BoardPanel
    x: int
    y: int


INSTANCE = BoardVariable(
    name="instance", label="Box", query="label_values(trainwarden_build_info, instance)"
)
ONE_RUN = BoardVariable(
    name="run",
    label="Run",
    query='label_values(trainwarden_run_state{instance=~"$instance"}, run)',
)
ONE_GPU = BoardVariable(
    name="gpu",
    label="GPU",
    query='label_values(trainwarden_gpu_info{instance=~"$instance"}, gpu)',
)
NEW_ATTEMPTS = Annotation(
    name="Attempts",
    expr=f"sum by (instance, run) (changes(trainwarden_attempts_total{{{RUN}}}[$__rate_interval])) > 0",
    title="{{run}} on {{instance}}: a new attempt",
    text="on that box: trainwarden status {{run}}; "
    "trainwarden report {{run}} -o {{run}}.html",
    colour=BLUE,
)
NEW_INCIDENTS = Annotation(
    name="Incidents",
    expr=f"sum by (instance, run, cause) (changes(trainwarden_incidents_total{{{RUN}}}[$__rate_interval])) > 0",
    title="{{run}} on {{instance}}: {{cause}}",
    text="on that box: trainwarden report {{run}} -o {{run}}.html "
    "(or trainwarden incidents {{run}}, then trainwarden explain ID)",
    colour=RED,
)
