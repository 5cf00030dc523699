"""The dashboards: every query asks for what is exported, and gets an answer."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.gpu.gpu_readings import Xid
from supervisor.core.gpu.xids import heard
from supervisor.core.metrics.catalog import METRICS
from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.metrics_server import MetricsServer
from tests.support.metrics import BOARD, DIGITS, MACHINE
from tests.support.prometheus import prometheus, until_answered

SAMPLES = {name for metric in METRICS for name in metric.samples}
DASHBOARDS = Path(__file__).parents[2] / "grafana" / "dashboards"
NAMES = re.compile(r"\btrainwarden_[a-z_]+")

FIRST = replace(
    DIGITS, attempt=1, step=2, restarts={}, incidents={}, step_counts=(0,) * 12,
    phase_seconds={"training": 0.4},
)  # fmt: skip
"""The run of ``tests.support.metrics``, a moment earlier."""

Dashboard = dict[str, Any]


LATER = replace(
    MACHINE,
    xids=heard(MACHINE.xids, [Xid(code=48, at=9.0, gpu=BOARD)], source="nvml", gpus=()),
)


def read(path: Path) -> Dashboard:
    """The dashboard as Grafana reads it."""
    loaded: Dashboard = json.loads(path.read_text())
    return loaded


@pytest.fixture(params=sorted(DASHBOARDS.glob("*.json")), ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    """Each of them."""
    return read(request.param)


def queries(dashboard: Dashboard) -> list[str]:
    """Every query of every panel and annotation."""
    panels = [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]
    return panels + [item["expr"] for item in dashboard["annotations"]["list"]]


def test_queries_ask_for_what_is_exported(dashboard: Dashboard) -> None:
    """Every metric on the dashboard is a row of the table."""
    text = "\n".join(queries(dashboard))
    named = set(NAMES.findall(text))
    assert named
    assert named <= SAMPLES


def test_what_is_chosen_is_heeded(dashboard: Dashboard) -> None:
    """A query about something with a label run or gpu heeds what was chosen of it."""
    labels = {name: set(metric.labels) for metric in METRICS for name in metric.samples}
    for text in queries(dashboard):
        asked = {label for name in NAMES.findall(text) for label in labels[name]}
        for label in asked & {"run", "gpu"}:
            assert f'{label}=~"${label}"' in text, text


def test_dashboards_are_told_apart() -> None:
    """Each has an identity of its own."""
    known = [read(path)["uid"] for path in DASHBOARDS.glob("*.json")]
    assert len(known) == len(set(known)) == 2


def test_panels_say_what_they_show(dashboard: Dashboard) -> None:
    """Each panel has a title, a sentence, and an id of its own."""
    panels = dashboard["panels"]
    assert all(panel["title"] and panel["description"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_panels_do_not_overlap(dashboard: Dashboard) -> None:
    """No panel lies on another, and none beyond the grid of 24."""
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )


def test_every_query_has_an_answer(tool: Callable[[str], str], tmp_path: Path) -> None:
    """A real Prometheus that scraped a real exporter answers every query."""
    asked = [
        text.replace("$run", ".*")
        .replace("$gpu", ".*")
        .replace("$__rate_interval", "1m")
        for path in sorted(DASHBOARDS.glob("*.json"))
        for text in queries(read(path))
    ]
    board = ExpositionCache()
    with MetricsServer(Address("127.0.0.1", 0), board.read) as server:
        board.publish([FIRST], MACHINE)
        target = str(server.address)
        with prometheus(tool("prometheus"), target, tmp_path) as address:
            until_answered(address, "trainwarden_attempts_total == 1")
            board.publish([DIGITS], LATER)
            for query in asked:
                until_answered(address, query)
