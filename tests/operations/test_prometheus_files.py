"""The files in ``deploy/prometheus``, and what a scrape says, before Prometheus' own tools."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grafana.boards.every_board import BOARDS, panel_id
from grafana.boards.run_board import RUN_BOARD
from grafana.lint.complaint import Node
from grafana.rules.alert import LABEL, RUNBOOKS, Alert
from grafana.rules.recording_rules import RECORDED
from grafana.rules.rendering import EVERY_ALERT, annotations
from supervisor.core.jobs.config import build_config
from supervisor.core.metrics.catalog import METRICS
from tests.support.metrics import DIGITS, MACHINE, render

Tool = Callable[[str], str]
SAMPLES = {name for metric in METRICS for name in metric.samples}


def promtool(tool: Tool, *arguments: str, cwd: Path, given: bytes = b"") -> str:
    """What promtool prints; it has to end well."""
    told = subprocess.run(
        [tool("promtool"), *arguments],
        check=False,
        cwd=cwd,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    assert told.returncode == 0, told.stdout.decode()
    return told.stdout.decode()


def shortest(tests: list[Node]) -> list[Node]:
    """For each alert the test that is over first, of those in which it fires and ends."""
    found: dict[str, tuple[int, Node]] = {}
    for one in tests:
        looks = one["alert_rule_test"]
        name, minutes = looks[0]["alertname"], int(looks[-1]["eval_time"].rstrip("m"))
        fires, ends = (
            any(look["exp_alerts"] for look in looks),
            looks[-1]["exp_alerts"] == [],
        )
        if fires and ends and minutes < found.get(name, (minutes + 1,))[0]:
            found[name] = minutes, one
    return [one for _, one in found.values()]


@pytest.mark.parametrize(
    "extent", [pytest.param("all", marks=pytest.mark.slow), "one of each"]
)
def test_alerts_fire_when_they_should(
    extent: str, root: Path, tool: Tool, tmp_path: Path
) -> None:
    """Each is silent just before and fires just after, with the right labels, and is over
    when its cause is; it fires for none of the other series."""
    where = root / "deploy" / "prometheus"
    file = where / "alerts_test.yml"
    if extent == "one of each":
        whole: Node = yaml.load(file.read_text(), yaml.CSafeLoader)
        tests = shortest(whole["tests"])
        assert len(tests) == len(EVERY_ALERT)
        rules = [str(where / name) for name in whole["rule_files"]]
        file = tmp_path / "alerts_test.yml"
        file.write_text(json.dumps({**whole, "rule_files": rules, "tests": tests}))
    assert "SUCCESS" in promtool(tool, "test", "rules", str(file), cwd=where)


def test_the_configuration_is_valid(root: Path, tool: Tool) -> None:
    """Prometheus takes the configuration and the rules it names."""
    where = root / "deploy" / "prometheus"
    told = promtool(tool, "check", "config", "prometheus.yml", cwd=where)
    assert "2 rule files found" in told
    assert f"{len(EVERY_ALERT)} rules found" in told
    assert f"{len(RECORDED)} rules found" in told


def test_a_fleet_is_scraped_as_is_written(
    root: Path, tool: Tool, tmp_path: Path
) -> None:
    """What the document has for boxes that another machine asks: the daemon takes its part,
    Prometheus its own, and who is denied by the unit is let in."""
    text = (root / "deploy" / "README.md").read_text().split("## Prometheus\n")[1]
    blocks = dict(re.findall(r"```(toml|ini|yaml)\n(.*?)```", text, re.DOTALL))
    metrics = build_config(blocks["toml"]).metrics
    assert str(metrics.listen).startswith("0.0.0.0:")
    assert metrics.client_ca is not None
    unit = (root / "deploy" / "systemd" / "trainwarden.service").read_text()
    assert "IPAddressDeny=any" in unit
    assert "\nIPAddressAllow=" in blocks["ini"]
    (tmp_path / "prometheus.yml").write_text(blocks["yaml"])
    for name in re.findall(r"_file: (.+)", blocks["yaml"]):
        (tmp_path / name).touch()
    (job,) = yaml.safe_load(blocks["yaml"])["scrape_configs"]
    assert job["job_name"] == "trainwarden"
    told = promtool(
        tool, "check", "config", "--syntax-only", "prometheus.yml", cwd=tmp_path
    )
    assert "SUCCESS" in told


@pytest.mark.parametrize("title", ["Incidents by cause", "Restarts by cause"])
def test_what_went_wrong_is_shown_once(title: str, tool: Tool, tmp_path: Path) -> None:
    """By cause, where there is one; else it is 0, and no total stands beside the causes."""
    (panel,) = (one for one in RUN_BOARD.panels if one.title == title)
    (query,) = panel.queries
    expr = query.expr.replace("$instance", ".+").replace("$run", ".+")
    name = expr.split("(")[2].split("{")[0]
    made = f'{name}{{instance="box",run="%s",cause="%s"}}'
    series = {("bad", "a"): "2", ("bad", "b"): "0", ("good", "a"): "0"}
    test = {
        "interval": "1m",
        "input_series": [
            {"series": made % labels, "values": f"{value}x5"}
            for labels, value in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": expr,
                "eval_time": "3m",
                "exp_samples": [
                    {"labels": '{instance="box",run="bad",cause="a"}', "value": 2},
                    {"labels": '{instance="box",run="good"}', "value": 0},
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in promtool(tool, "test", "rules", "test.yml", cwd=tmp_path)


def test_a_scrape_is_clean(root: Path, tool: Tool) -> None:
    """``promtool check metrics`` has nothing to say about what we export."""
    told = promtool(tool, "check", "metrics", cwd=root, given=render([DIGITS], MACHINE))
    assert told == ""


def test_each_alert_has_its_runbook(root: Path) -> None:
    """Alerts and runbooks have the same names, and each name is one alert's."""
    names = [alert.name for alert in EVERY_ALERT]
    runbooks = {path.stem for path in (root / "deploy" / "runbooks").glob("*.md")}
    assert len(names) == len(set(names))
    assert set(names) == runbooks


@pytest.mark.parametrize("alert", EVERY_ALERT, ids=lambda alert: alert.name)
def test_each_alert_is_whole(alert: Alert) -> None:
    """A test that sees it silent, firing and over; a sentence and its story; an absolute
    address of its runbook; a panel that is there. What people are told names no label
    that the alert has not."""
    assert any(case.fires and case.resolved for case in alert.cases)
    assert all(
        (case.fires is None) == (case.silent is not None) for case in alert.cases
    )
    told = annotations(alert, panel_id)
    assert told["summary"].endswith(".")
    assert told["description"].endswith(".")
    assert told["runbook_url"] == f"{RUNBOOKS}/{alert.name}.md"
    assert re.match(r"https?://\S+$", told["runbook_url"])
    assert told["__dashboardUid__"] in {board.uid for board in BOARDS}
    assert int(told["__panelId__"]) > 0
    for case in alert.cases:
        for labels in case.labels if case.fires else ():
            has = {*labels, *(("instance",) if case.instance else ()), "severity"}
            assert set(LABEL.findall(alert.summary + alert.description)) <= has


def test_recording_rules_are_used() -> None:
    """Each by an alert, a panel or another."""
    used = "\n".join(
        [
            *(alert.expr for alert in EVERY_ALERT),
            *(one.expr for one in RECORDED),
            *(
                query.expr
                for board in BOARDS
                for panel in board.panels
                for query in panel.queries
            ),
        ]
    )
    for one in RECORDED:
        assert one.name in used


def test_documents_know_the_table(root: Path) -> None:
    """Every metric that a document or a runbook names is exported."""
    texts = [
        path.read_text()
        for path in (root / "deploy").rglob("*")
        if path.suffix in {".yml", ".md"} and path.name != "metrics.md"
    ]
    text = "\n".join(texts)
    named = {
        name.rstrip("_")
        for name in re.findall(r"(?<![:\w])trainwarden_[a-z_]+\b(?!:)", text)
    }
    assert named
    assert named <= SAMPLES
