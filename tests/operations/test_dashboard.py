"""The dashboards as files: what a linter of dashboards looks for."""

import json
import re
import shlex
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import pytest

from grafana.boards.board import BOX, GPU, RUN, Board, Kind, Query
from grafana.boards.every_board import BOARDS, SHOWN_NOWHERE
from grafana.rules.recording_rules import RECORDED
from supervisor.cli.command_group import trainwarden
from supervisor.core.metrics.catalog import METRICS

SAMPLES = {name for metric in METRICS for name in metric.samples}
LABELS = {name: metric.labels for metric in METRICS for name in metric.samples}
DASHBOARDS = Path(__file__).parents[2] / "grafana" / "dashboards"
NAMES = re.compile(r"(?<![:\w])trainwarden_[a-z_]+\b(?!:)")
RECORDED_NAMES = re.compile(r"\w+:trainwarden_\w+:\w+")
BY = re.compile(r"by \(([^)]*)\)")

Dashboard = dict[str, Any]

every_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def read(board: Board) -> Dashboard:
    """The dashboard as Grafana reads it."""
    name = f"{board.uid.removeprefix('trainwarden-')}.json"
    loaded: Dashboard = json.loads((DASHBOARDS / name).read_text())
    return loaded


def queries(board: Board) -> list[Query]:
    """Every query of every panel."""
    return [query for panel in board.panels for query in panel.queries]


def test_there_are_no_others() -> None:
    """Each file is one of the boards; each has an identity of its own, which stays."""
    uids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS.glob("*.json")]
    assert sorted(uids) == sorted(board.uid for board in BOARDS)
    assert {board.uid for board in BOARDS} == {
        f"trainwarden-{name}" for name in ("fleet", "box", "run", "memory", "gpu")
    }


@every_board
def test_queries_ask_for_what_is_exported(board: Board) -> None:
    """Every metric on the dashboard is a row of the table, or recorded."""
    text = "\n".join(
        [query.expr for query in queries(board)]
        + [note.expr for note in board.annotations]
        + [variable.query for variable in board.variables]
    )
    assert set(NAMES.findall(text)) <= SAMPLES
    assert set(RECORDED_NAMES.findall(text)) <= {one.name for one in RECORDED}


def test_every_metric_is_shown() -> None:
    """Each row of the table is on a dashboard, or it is said why it is not."""
    text = "\n".join(query.expr for board in BOARDS for query in queries(board))
    shown = set(NAMES.findall(text))
    missing = {
        metric.family for metric in METRICS if not shown.intersection(metric.samples)
    }
    assert missing == set(SHOWN_NOWHERE)
    assert all(SHOWN_NOWHERE.values())


@every_board
def test_what_is_chosen_is_heeded(board: Board) -> None:
    """A query heeds the box that was chosen; where a run or a GPU can be, those, too."""
    chosen = {variable.name for variable in board.variables}
    asked = [query.expr for query in queries(board)]
    for text in (*asked, *(note.expr for note in board.annotations)):
        for name, selector in re.findall(r"(\w*trainwarden_\w+)(\{[^}]*\})?", text):
            wants = set(LABELS.get(name, ())) & {"run", "gpu"} & chosen
            needed = RUN if "run" in wants else GPU if "gpu" in wants else BOX
            assert needed in selector or name not in SAMPLES, (name, text)
        for name, selector in re.findall(
            r"(\w+:trainwarden_\w+:\w+)(\{[^}]*\})?", text
        ):
            assert 'instance=~"$instance"' in selector, (name, text)


@every_board
def test_hints_are_commands_as_they_stand(board: Board) -> None:
    """What a mark on a chart says to type is taken when it is pasted."""
    for note in board.annotations:
        text = note.text.replace("{{run}}", "digits").replace("ID", "1")
        commands = re.findall(r"trainwarden (\w+)([^;,()]*)", text)
        for verb, rest in commands:
            with click.Context(trainwarden) as context:
                command = trainwarden.get_command(context, verb)
                assert command is not None, text
                command.make_context(verb, shlex.split(rest), parent=context)


@every_board
def test_equal_names_stay_apart(board: Board) -> None:
    """What is told by run or by GPU is told by box as well."""
    for query in queries(board):
        for found in BY.findall(query.expr):
            labels = {label.strip() for label in found.split(",")}
            if labels & {"run", "gpu"}:
                assert "instance" in labels, query.expr
                if query.legend:
                    assert "{{instance}}" in query.legend, query.legend


@every_board
def test_rates_follow_the_scrape(board: Board) -> None:
    """Counters are looked at by rate over what Grafana says is enough; a window of its own
    only where the panel says so."""
    for panel in board.panels:
        for query in panel.queries:
            for window in re.findall(r"\[([^\]]+)\]", query.expr):
                assert window in {"$__rate_interval", "$__range"} or (
                    window == "1h" and "hour" in panel.about
                ), query.expr
            for of in re.findall(r"(?:rate|increase)\((\w+)", query.expr):
                assert of.endswith(("_total", "_sum", "_count", "_bucket"))


@every_board
def test_panels_say_what_they_show(board: Board) -> None:
    """Each panel has a title of its own, a sentence that says what is good, a unit, and
    names for its lines; in a table, for its columns."""
    titles = [panel.title for panel in board.panels]
    assert len(titles) == len(set(titles))
    for panel in board.panels:
        assert panel.about.endswith(".")
        assert panel.unit
        for query in panel.queries:
            named = query.title if panel.kind is Kind.TABLE else query.legend
            assert named, panel.title


@every_board
def test_the_file_is_what_grafana_wants(board: Board) -> None:
    """Read-only, by one data source that can be chosen, with links to the others; each
    panel with an id, and none on another or beyond the grid."""
    read_ = read(board)
    assert read_["editable"] is False
    assert read_["links"][0]["tags"] == read_["tags"] == ["trainwarden"]
    assert read_["links"][0]["includeVars"]
    variables = read_["templating"]["list"]
    assert [one["name"] for one in variables] == [
        "datasource",
        *(variable.name for variable in board.variables),
    ]
    panels = read_["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert sum(panel["type"] == "row" for panel in panels) == len(board.rows)
    for panel in panels:
        assert panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )


def test_clicks_lead_to_dashboards() -> None:
    """Each link leads to a dashboard that is there, takes the box and the time along, and
    chooses only what can be chosen there. Every dashboard but the first is led to."""
    names = {
        board.uid: {"datasource", *(one.name for one in board.variables)}
        for board in BOARDS
    }
    led: set[str] = set()
    for board in BOARDS:
        for uid, rest in re.findall(r"/d/([\w-]+)\?([^\"]+)", json.dumps(read(board))):
            assert "${__url_time_range}" in rest
            assert "var-instance=" in rest
            assert set(re.findall(r"var-(\w+)=", rest)) <= names[uid] | {"run", "gpu"}
            led.add(uid)
    assert led == {board.uid for board in BOARDS} - {"trainwarden-fleet"}
