"""A linter of dashboards: the rules of Grafana's dashboard-linter, which mixtool uses, for a
dashboard that asks Prometheus. ``reference`` says which there are.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from grafana.lint import promql
from grafana.lint.complaint import Complaint, KnownSeries, Node

SOURCE = "${datasource}"
WINDOWS = {"$__rate_interval", "$__range"}
"""Those that Grafana chooses; one hour where the panel says so."""
UNITLESS = "short"
WITH_UNIT = re.compile(
    r"_(bytes|seconds|celsius|watts|joules|hertz|ratio)(_total|_sum)?$"
)
ON_TIME_CHANGE = 2
"""Grafana's number for when a variable is asked for anew."""
OF_THE_FLEET = {"up", "ALERTS"}
"""What is asked of all boxes: a box that is down has no instance to choose."""

Check = Callable[[Node, KnownSeries], Iterator[str]]


def panels(board: Node) -> list[Node]:
    """Those that ask for something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board: Node) -> Iterator[tuple[str, str]]:
    """Title and expression of every query."""
    for panel in panels(board):
        for target in panel.get("targets", ()):
            yield panel.get("title", ""), target.get("expr", "")


def variables(board: Node) -> dict[str, Node]:
    """What can be chosen, by name."""
    return {one["name"]: one for one in board["templating"]["list"]}


def has_identity(board: Node, _known: KnownSeries) -> Iterator[str]:
    """A title, and a uid that links lead to."""
    for name in ("title", "uid"):
        if not board.get(name):
            yield f"no {name}"


def cannot_be_edited(board: Node, _known: KnownSeries) -> Iterator[str]:
    """What is changed in the browser is lost with the next provisioning."""
    if board.get("editable", True):
        yield "editable"


def source_is_chosen(board: Node, _known: KnownSeries) -> Iterator[str]:
    """The first variable, for Prometheus."""
    first = board["templating"]["list"][:1]
    if not first or (first[0]["type"], first[0]["query"]) != (
        "datasource",
        "prometheus",
    ):
        yield "no variable for the data source"


def box_is_chosen(board: Node, _known: KnownSeries) -> Iterator[str]:
    """All, some or one."""
    found = variables(board).get("instance")
    if found is None:
        yield "no variable for the box"
    elif not (found["multi"] and found["includeAll"] and found["allValue"] == ".*"):
        yield "not every choice of boxes is possible"


def variables_ask_for_series(board: Node, known: KnownSeries) -> Iterator[str]:
    """``label_values`` of what is exported, by a label that it has."""
    for name, variable in variables(board).items():
        if variable["type"] != "query":
            continue
        found = re.fullmatch(
            r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"]["query"]
        )
        has = known.labels.get(found[1]) if found else None
        if found is None or has is None or found[2] not in has | {"instance"}:
            yield f"{name}: {variable['query']['query']}"


def variables_follow_time(board: Node, _known: KnownSeries) -> Iterator[str]:
    """What was there yesterday can be chosen for yesterday."""
    for name, variable in variables(board).items():
        if variable["type"] == "query" and variable.get("refresh") != ON_TIME_CHANGE:
            yield f"{name} is not asked for anew"


def panels_use_the_source(board: Node, _known: KnownSeries) -> Iterator[str]:
    """Not the one of whoever made it."""
    for panel in panels(board):
        asked = [panel, *panel.get("targets", ())]
        if any(one.get("datasource", {}).get("uid") != SOURCE for one in asked):
            yield panel.get("title", "?")


def panels_say_what_they_show(board: Node, _known: KnownSeries) -> Iterator[str]:
    """A title and a description."""
    for panel in panels(board):
        if not (panel.get("title") and panel.get("description", "").endswith(".")):
            yield panel.get("title", "?")


def panels_have_units(board: Node, _known: KnownSeries) -> Iterator[str]:
    """One that fits: bytes and seconds are no plain numbers."""
    for panel in panels(board):
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        if not unit:
            yield f"{panel['title']}: none"
        asked = [target["expr"] for target in panel.get("targets", ())]
        plain = [expr for expr in asked if unitless(expr)]
        if unit == UNITLESS and panel["type"] != "table" and len(plain) < len(asked):
            yield f"{panel['title']}: {unit}"


def unitless(expr: str) -> bool:
    """Whether its answers are plain numbers: a second of work a second is one, too."""
    if re.match(r"\s*(count|sum by \(use\))\b", expr) or "rate(" in expr:
        return True
    return not any(WITH_UNIT.search(name) for name in promql.series(expr))


def panels_ask(board: Node, _known: KnownSeries) -> Iterator[str]:
    """For something."""
    for panel in panels(board):
        if not panel.get("targets"):
            yield panel.get("title", "?")


def lines_have_names(board: Node, _known: KnownSeries) -> Iterator[str]:
    """Not all labels of a series."""
    for panel in panels(board):
        for target in panel.get("targets", ()):
            if target.get("format") != "table" and not target.get("legendFormat"):
                yield panel["title"]


def rates_follow_the_scrape(board: Node, _known: KnownSeries) -> Iterator[str]:
    """Over what Grafana says is enough."""
    for panel in panels(board):
        for target in panel.get("targets", ()):
            for span in re.findall(r"\[([^\]]+)\]", target["expr"]):
                said = span == "1h" and "hour" in panel["description"]
                if span not in WINDOWS and not said:
                    yield f"{panel['title']}: [{span}]"


def queries_heed_the_box(board: Node, _known: KnownSeries) -> Iterator[str]:
    """Each selector."""
    for title, expr in queries(board):
        chosen = dict(re.findall(r"([\w:]+)\{([^}]*)\}", expr))
        for name in promql.series(expr) - OF_THE_FLEET:
            if 'instance=~"$instance"' not in chosen.get(name, ""):
                yield f"{title}: {name}"


def counters_are_summed_after_rates(board: Node, _known: KnownSeries) -> Iterator[str]:
    """A rate of a sum does not see a restart."""
    for title, expr in queries(board):
        for call in promql.calls(expr, promql.RATES):
            if re.match(r"\s*(sum|max|min|avg)\b", call.inner):
                yield title


def histograms_keep_le(board: Node, _known: KnownSeries) -> Iterator[str]:
    """A quantile needs the buckets' bounds."""
    for title, expr in queries(board):
        for call in promql.calls(expr, ("histogram_quantile",)):
            sums = list(promql.calls(call.inner, ("sum",)))
            if any("le" not in (one.by or ()) for one in sums):
                yield title


def series_exist(board: Node, known: KnownSeries) -> Iterator[str]:
    """Exported, or recorded."""
    for title, expr in queries(board):
        for name in promql.series(expr) - OF_THE_FLEET:
            if name not in known.labels and name not in known.recorded:
                yield f"{title}: {name}"


def time_is_set(board: Node, _known: KnownSeries) -> Iterator[str]:
    """How much is shown, and how often it is asked for."""
    if not board.get("refresh") or not board.get("time", {}).get("from"):
        yield "no time range, or no refresh"


CHECKS: Mapping[str, Check] = {
    "dashboard-title-uid": has_identity,
    "dashboard-time-refresh": time_is_set,
    "uneditable-dashboard": cannot_be_edited,
    "template-datasource-rule": source_is_chosen,
    "template-instance-rule": box_is_chosen,
    "template-label-promql-rule": variables_ask_for_series,
    "template-on-time-change-reload-rule": variables_follow_time,
    "panel-datasource-rule": panels_use_the_source,
    "panel-title-description-rule": panels_say_what_they_show,
    "panel-units-rule": panels_have_units,
    "panel-no-targets-rule": panels_ask,
    "panel-legend-rule": lines_have_names,
    "target-rate-interval-rule": rates_follow_the_scrape,
    "target-instance-rule": queries_heed_the_box,
    "target-counter-agg-rule": counters_are_summed_after_rates,
    "target-histogram-rule": histograms_keep_le,
    "target-series-rule": series_exist,
}


def of_board(board: Node, known: KnownSeries) -> Iterator[Complaint]:
    """What is wrong with a dashboard, as Grafana reads it."""
    for check, ask in CHECKS.items():
        for what in ask(board, known):
            yield Complaint(check, board.get("uid") or "?", what)
