"""The files in ``deploy/prometheus``, and what a scrape says, before Prometheus' own tool."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

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
        timeout=60,
    )
    assert told.returncode == 0, told.stdout.decode()
    return told.stdout.decode()


def test_alerts_fire_when_they_should(root: Path, tool: Tool) -> None:
    """The alerts fire on the series they are meant for, and on none of the others."""
    where = root / "deploy" / "prometheus"
    assert "SUCCESS" in promtool(tool, "test", "rules", "alerts_test.yml", cwd=where)


def test_the_configuration_is_valid(root: Path, tool: Tool) -> None:
    """Prometheus takes the configuration and the rules it names."""
    where = root / "deploy" / "prometheus"
    told = promtool(tool, "check", "config", "prometheus.yml", cwd=where)
    assert "1 rule files found" in told
    assert "5 rules found" in told


def test_a_scrape_is_clean(root: Path, tool: Tool) -> None:
    """``promtool check metrics`` has nothing to say about what we export."""
    told = promtool(tool, "check", "metrics", cwd=root, given=render([DIGITS], MACHINE))
    assert told == ""


def test_each_alert_has_its_test_and_its_runbook(root: Path) -> None:
    """Alerts, their tests and the runbooks have the same names."""
    where = root / "deploy" / "prometheus"
    rules = (where / "alerts.yml").read_text()
    alerts = set(re.findall(r"- alert: (\w+)", rules))
    tested = re.findall(r"alertname: (\w+)", (where / "alerts_test.yml").read_text())
    runbooks = {path.stem for path in (root / "deploy" / "runbooks").glob("*.md")}
    assert len(alerts) == 5
    assert alerts == set(tested) == runbooks
    for path in re.findall(r"runbook: (\S+)", rules):
        assert (root / path).is_file()


def test_alerts_and_runbooks_know_the_table(root: Path) -> None:
    """Every metric that an alert or a runbook names is exported."""
    texts = [
        path.read_text()
        for path in (root / "deploy").rglob("*")
        if path.suffix in {".yml", ".md"} and path.name != "metrics.md"
    ]
    named = set(re.findall(r"\btrainwarden_[a-z_]+", "\n".join(texts)))
    assert named
    assert named <= SAMPLES
