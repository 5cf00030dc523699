"""The promtool tests of alerts are worth something: a rule that asks for a little more or
less, waits for longer, or lets a condition go, fails them."""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from grafana.boards.every_board import panel_id
from grafana.rules.alert import Alert
from grafana.rules.rendering import (
    EVERY_ALERT,
    RECORDING,
    alert_rule,
    as_yaml,
    promtool_test,
    recording_file,
)

NUMBER = re.compile(r"(?<=[<>] )\d+(?:\.\d+)?")
MATCHER = re.compile(r'(\w+)=~?"[^"]*"')
WINDOW = re.compile(r"\[(\d+)([mh])\]")
CONDITION = re.compile(r"^(?:and|unless) on \([\w, ]+\) [^\n(]+$", re.MULTILINE)
GROUP = "mutated"


def broken(alert: Alert) -> Iterator[tuple[str, Alert]]:
    """Rules that are nearly the same, and what was changed."""
    expr = alert.expr

    def put(found: re.Match[str], new: str) -> tuple[str, Alert]:
        changed = expr[: found.start()] + new + expr[found.end() :]
        return f"{found[0]} → {new or 'nothing'}", replace(alert, expr=changed)

    for found in NUMBER.finditer(expr):
        if float(found[0]):
            yield put(found, repr(1.5 * float(found[0])))
            yield put(found, repr(0.6 * float(found[0])))
    for found in MATCHER.finditer(expr):
        yield put(found, f'{found[1]}=~".*"')
    for found in WINDOW.finditer(expr):
        yield put(found, f"[{2 * int(found[1])}{found[2]}]")
    for found in CONDITION.finditer(expr):
        yield put(found, "")
    if alert.hold != "0m":
        number, unit = int(alert.hold[:-1]), alert.hold[-1]
        yield "it does not wait", replace(alert, hold="0m")
        yield "it waits twice as long", replace(alert, hold=f"{2 * number}{unit}")


@pytest.mark.slow
@pytest.mark.parametrize("alert", EVERY_ALERT, ids=lambda alert: alert.name)
def test_a_changed_rule_fails(
    alert: Alert, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Every one of them; the rule as it is passes."""
    (tmp_path / "recording.yml").write_text(recording_file())
    tests = {
        "rule_files": ["recording.yml", "alerts.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": [RECORDING, GROUP],
        "tests": [promtool_test(alert, case, panel_id) for case in alert.cases],
    }
    (tmp_path / "tests.yml").write_text(as_yaml(tests))

    def passes(rule: Alert) -> bool:
        group = {"name": GROUP, "rules": [alert_rule(rule, panel_id)]}
        (tmp_path / "alerts.yml").write_text(yaml.safe_dump({"groups": [group]}))
        done = subprocess.run(
            [tool("promtool"), "test", "rules", "tests.yml"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            timeout=120,
        )
        return done.returncode == 0

    assert passes(alert)
    assert [what for what, rule in broken(alert) if passes(rule)] == []
