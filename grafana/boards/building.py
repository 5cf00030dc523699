"""Dashboards as Grafana's JSON, by Grafana Labs' own builders (grafana-foundation-sdk)."""

import json
import re
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.statetimeline import Panel as TimelinePanel
from grafana_foundation_sdk.builders.table import Panel as TablePanel
from grafana_foundation_sdk.builders.timeseries import Panel as TimeseriesPanel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.boards.board import (
    ROW_TITLE_HEIGHT,
    Annotation,
    Board,
    BoardPanel,
    BoardRow,
    BoardVariable,
    Kind,
    Placed,
    Query,
)

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "trainwarden"
LABELS = re.compile(r"by \(([\w, ]+)\)")
HOME = "/d/{uid}?var-datasource=${{datasource}}&${{__url_time_range}}{chosen}"
"""Where a click leads; the time that is shown is kept."""
DOWN = (
    ("run", "trainwarden-run", "Open the run"),
    ("run", "trainwarden-memory", "Open its memory"),
    ("gpu", "trainwarden-gpu", "Open the GPU"),
    ("instance", "trainwarden-box", "Open the box"),
)
"""What a label leads to."""

AnyPanel = StatPanel | TimelinePanel | TablePanel | TimeseriesPanel


def as_json(board: Board) -> str:
    """The dashboard, as Grafana's provisioning reads it."""
    built: dict[str, Any] = json.loads(JSONEncoder().encode(_board(board).build()))
    notes = {one.name: one for one in board.annotations}
    for item in built["annotations"]["list"] if notes else ():
        note = notes[item["name"]]  # the builder has no fields for these two
        item |= {"titleFormat": note.title, "textFormat": note.text}
    return json.dumps(built, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _board(board: Board) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .timezone("browser")
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-6h", "now")
        .version(1)
        .with_variable(
            dashboard.DatasourceVariable("datasource")
            .label("Prometheus")
            .type("prometheus")
        )
        .link(
            dashboard.DashboardLink("Trainwarden")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(include_vars=True)
            .keep_time(keep_time=True)
        )
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    for annotation in board.annotations:
        made = made.annotation(_annotation(annotation))
    for placed in board.placed():
        if isinstance(placed.what, BoardRow):
            made = made.with_row(_row(placed, placed.what))
        else:
            made = made.with_panel(_panel(placed, placed.what, board))
    return made


def _variable(variable: BoardVariable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .query({"query": variable.query, "refId": variable.name})
        .datasource(SOURCE)
        .current(model.VariableOption(text="All", value="$__all"))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
    )


def _annotation(annotation: Annotation) -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name(annotation.name)
        .datasource(SOURCE)
        .enable(enable=True)
        .icon_color(annotation.colour)
        .expr(annotation.expr)
    )


def _row(placed: Placed, row: BoardRow) -> dashboard.Row:
    place = model.GridPos(x=0, y=placed.y, w=24, h=ROW_TITLE_HEIGHT)
    return dashboard.Row(row.title).id(placed.number).grid_pos(place)


def _panel(placed: Placed, panel: BoardPanel, board: Board) -> AnyPanel:
    place = model.GridPos(x=placed.x, y=placed.y, w=panel.width, h=panel.height)
    made = (
        _kind(panel)
        .id(placed.number)
        .title(panel.title)
        .description(panel.about)
        .datasource(SOURCE)
        .grid_pos(place)
        .unit(panel.unit)
        .thresholds(_limits(panel))
        .mappings(_names(panel))
        .data_links(_links(panel, board))
    )
    if panel.kind is not Kind.TABLE and panel.kind is not Kind.TIMELINE:
        made = made if panel.least is None else made.min(panel.least)
        made = made if panel.most is None else made.max(panel.most)
    if panel.empty_because:
        made = made.no_value(f"none: {panel.empty_because}")
    for place_in, query in enumerate(panel.queries):
        made = made.with_target(_query(query, panel.kind, chr(ord("A") + place_in)))
    return _columns(made, panel, board) if panel.kind is Kind.TABLE else made


def _kind(panel: BoardPanel) -> AnyPanel:
    match panel.kind:
        case Kind.STAT:
            last = common.ReduceDataOptions().calcs(["lastNotNull"])
            return (
                StatPanel()
                .reduce_options(last)
                .text_mode(
                    looks.BigValueTextMode.NAME
                    if panel.by_name
                    else looks.BigValueTextMode.VALUE_AND_NAME
                )
                .color_mode(looks.BigValueColorMode.VALUE)
                .graph_mode(looks.BigValueGraphMode.NONE)
            )
        case Kind.TIMELINE:
            return (
                TimelinePanel()
                .show_value(looks.VisibilityMode.NEVER)
                .merge_values(merge_values=True)
            )
        case Kind.TABLE:
            return TablePanel()
        case _:
            return _chart(panel)


def _chart(panel: BoardPanel) -> TimeseriesPanel:
    made = (
        TimeseriesPanel()
        .line_width(1)
        .fill_opacity(20 if panel.stacked else 0)
        .show_points(looks.VisibilityMode.AUTO)
        .tooltip(
            common.VizTooltipOptions()
            .mode(looks.TooltipDisplayMode.MULTI)
            .sort(looks.SortOrder.DESCENDING)
        )
        .legend(
            common.VizLegendOptions()
            .display_mode(looks.LegendDisplayMode.TABLE)
            .placement(looks.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
            .calcs(["lastNotNull", "max"])
        )
    )
    if panel.stacked:
        mode = common.StackingConfig().mode(looks.StackingMode.NORMAL).group("A")
        made = made.stacking(mode)
    if panel.limits:
        modes = looks.GraphThresholdsStyleMode
        style = modes.AREA if panel.banded else modes.DASHED
        made = made.thresholds_style(common.GraphThresholdsStyleConfig().mode(style))
    if panel.banded:  # the last band is to be seen where no line reaches it
        made = made.axis_soft_max(panel.highest)
    return made


def _limits(panel: BoardPanel) -> dashboard.ThresholdsConfig:
    steps = panel.limits or ((None, "blue"),)
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )


def _names(panel: BoardPanel) -> list[model.ValueMapping]:
    if not panel.names:
        return []
    return [
        model.ValueMap(
            options={
                value: model.ValueMappingResult(text=text, color=colour, index=index)
                for index, (value, (text, colour)) in enumerate(panel.names.items())
            }
        )
    ]


def _query(query: Query, kind: Kind, reference: str) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query.expr).ref_id(reference).datasource(SOURCE)
    if kind is Kind.TABLE:
        return made.instant().format(PromQueryFormat.TABLE)
    made = made.legend_format(query.legend)
    return made.instant() if kind is Kind.STAT else made.range()


def labels_of(panel: BoardPanel) -> frozenset[str]:
    """The labels that its answers have, as far as its queries say so."""
    found = (LABELS.findall(query.expr) for query in panel.queries)
    return frozenset(
        label.strip() for names in found for name in names for label in name.split(",")
    )


def _links(panel: BoardPanel, board: Board) -> list[Any]:
    """From a line or a figure to what it is of; in a table its columns have them."""
    if panel.kind is Kind.TABLE:
        return []
    labels = labels_of(panel)
    return [
        _link(title, uid, labels, "${{__field.labels.{label}}}")
        for label, uid, title in DOWN
        if label in labels and uid != board.uid
    ]


def _link(
    title: str, uid: str, labels: frozenset[str], value: str
) -> dashboard.DashboardLink:
    chosen = "".join(
        f"&var-{label}={value.format(label=label)}"
        for label in dict.fromkeys(label for label, _, _ in DOWN)
        if label in labels
    )
    url = HOME.format(uid=uid, chosen=chosen)
    return dashboard.DashboardLink(title).url(url)


def _columns(made: AnyPanel, panel: BoardPanel, board: Board) -> AnyPanel:
    """One row for equal labels; columns with their names, units and links."""
    titles = {
        f"Value #{chr(ord('A') + place)}"
        if len(panel.queries) > 1
        else "Value": query.title
        for place, query in enumerate(panel.queries)
    }
    dropped = dict.fromkeys(
        (*panel.drop, *(raw for raw, title in titles.items() if title in panel.drop)),
        True,
    )
    organised = {"excludeByName": dropped, "renameByName": titles}
    made = made.with_transformation(
        model.DataTransformerConfig(id_val="merge", options={})
    ).with_transformation(
        model.DataTransformerConfig(id_val="organize", options=organised)
    )
    for title, unit in panel.units.items():
        made = made.override_by_name(title, [model.DynamicConfigValue("unit", unit)])
    for label, links in _links_of_columns(panel, board).items():
        made = made.override_by_name(label, [model.DynamicConfigValue("links", links)])
    return made


def _links_of_columns(panel: BoardPanel, board: Board) -> dict[str, list[Any]]:
    """From a cell to what it names, by the label that is its column."""
    labels = labels_of(panel)
    found: dict[str, list[Any]] = {}
    for label, uid, title in DOWN:
        if label in labels and uid != board.uid:
            needed = labels & {label, "instance"}
            link = _link(title, uid, needed, "${{__data.fields.{label}}}").build()
            found.setdefault(label, []).append({"title": link.title, "url": link.url})
    return found
