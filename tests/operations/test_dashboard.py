"""The dashboard: every query asks for what is exported, and gets an answer."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest

from supervisor.core.causes import Cause
from supervisor.core.metrics_table import METRICS
from supervisor.core.status import JobState, JobStatus, SnapshotStatus
from supervisor.host.exporter import Exporter

SAMPLES = {name for metric in METRICS for name in metric.samples}
DASHBOARD = Path(__file__).parents[2] / "grafana" / "dashboards" / "run.json"
DEADLINE_SECONDS = 60.0

FIRST = JobStatus(
    job="digits",
    state=JobState.RUNNING,
    attempt=1,
    phase="training",
    pid=4711,
    epoch=0,
    epochs=10,
    step=2,
    step_in_epoch=2,
    steps_per_epoch=12,
    samples=256,
    loss=1.5,
    effective_batch=128,
    slices=1,
    slice_size=128,
    snapshot=SnapshotStatus(step=0, age_seconds=1.5),
    memory_limit_bytes=180 * 2**20,
    memory_in_use_bytes=21 * 2**20,
    memory_peak_bytes=158 * 2**20,
    host_rss_bytes=10**9,
    heartbeat_age_seconds=0.1,
    step_counts=(0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0),
    step_seconds_sum=0.4,
    phase_seconds={"training": 0.4},
)
SECOND = replace(
    FIRST,
    attempt=2,
    step=15,
    slices=4,
    slice_size=32,
    step_counts=(0, 0, 0, 0, 1, 14, 0, 0, 0, 0, 0, 0),
    step_seconds_sum=3.1,
    phase_seconds={"training": 3.1, "compiling": 1.0},
    restarts={Cause.DEVICE_OOM: 1},
    incidents={Cause.DEVICE_OOM: 1},
)

Dashboard = dict[str, Any]
Answer = TypeVar("Answer")


@pytest.fixture
def dashboard() -> Dashboard:
    """The dashboard as Grafana reads it."""
    loaded: Dashboard = json.loads(DASHBOARD.read_text())
    return loaded


def queries(dashboard: Dashboard) -> list[str]:
    """Every query of every panel and annotation."""
    panels = [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]
    return panels + [item["expr"] for item in dashboard["annotations"]["list"]]


def test_queries_ask_for_what_is_exported(dashboard: Dashboard) -> None:
    """Every metric on the dashboard is a row of the table."""
    text = "\n".join(queries(dashboard))
    named = set(re.findall(r"\btrainwarden_[a-z_]+", text))
    assert named
    assert named <= SAMPLES


def test_every_series_of_a_run_can_be_chosen(dashboard: Dashboard) -> None:
    """Each query but the one about the exporter itself heeds the chosen run."""
    without = [text for text in queries(dashboard) if 'run=~"$run"' not in text]
    assert without == ["trainwarden_build_info"]


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


@contextmanager
def prometheus(program: str, target: str, directory: Path) -> Generator[str]:
    """A Prometheus server that scrapes ``target``; yields its address."""
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\n"
        "scrape_configs:\n"
        "  - job_name: trainwarden\n"
        f"    static_configs: [{{targets: ['{target}']}}]\n"
    )
    log = directory / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        yield until(lambda: listening(log), f"Prometheus is up: {log}")
    finally:
        server.terminate()
        server.wait(timeout=30)


def listening(log: Path) -> str | None:
    """The address that Prometheus says it has, once it says so."""
    found = re.search(
        r'msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)', log.read_text()
    )
    return found[1] if found else None


def until(ask: Callable[[], Answer | None], what: str) -> Answer:
    """The first answer that is one."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < ends:
        answer = ask()
        if answer is not None:
            return answer
        time.sleep(0.1)
    pytest.fail(f"waited in vain until {what}")


def until_answered(address: str, query: str) -> None:
    """Wait until the query has an answer."""
    until(lambda: answered(address, query) or None, f"{query} has an answer")


def answered(address: str, query: str) -> bool:
    """Whether the query has an answer now."""
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", f"/api/v1/query?{urlencode({'query': query})}")
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    assert answer["status"] == "success", (query, answer)
    return bool(answer["data"]["result"])


def test_every_query_has_an_answer(
    dashboard: Dashboard, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """A real Prometheus that scraped a real exporter answers every query."""
    exporter = Exporter("127.0.0.1:0")
    exporter.publish([FIRST])
    asked = [
        text.replace("$run", ".*").replace("$__rate_interval", "1m")
        for text in queries(dashboard)
    ]
    try:
        target = str(exporter.address)
        with prometheus(tool("prometheus"), target, tmp_path) as address:
            until_answered(address, "trainwarden_attempts_total == 1")
            exporter.publish([SECOND])
            for query in asked:
                until_answered(address, query)
    finally:
        exporter.close()
