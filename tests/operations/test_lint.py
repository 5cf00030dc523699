"""Rules and dashboards before a linter with the checks of pint, mixtool and Grafana's
dashboard-linter; and the linter before mistakes that it has to find."""

import copy
import functools
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.boards.board import BoardPanel
from grafana.boards.every_board import BOARDS
from grafana.lint import dashboard_lint, rule_lint
from grafana.lint.complaint import KnownSeries, Node, names
from grafana.lint.reference import DASHBOARD_LINTER, MIXTOOL, PINT
from grafana.rules.recording_rules import RECORDED
from supervisor.core.metrics.catalog import METRICS
from supervisor.core.metrics.metric import MetricKind

ROOT = Path(__file__).parents[2]
FILES = ("recording.yml", "alerts.yml")
SIDE_BY_SIDE = {
    "group/interval",
    "promql/performance",
    "rule/dependency",
    "rule/duplicate",
}
COUNTED = {MetricKind.COUNTER, MetricKind.HISTOGRAM}


def known_series() -> KnownSeries:
    """What there is."""
    labels = {
        name: frozenset((*metric.labels, *(["le"] * name.endswith("_bucket"))))
        for metric in METRICS
        for name in metric.samples
    }
    return KnownSeries(
        labels=labels,
        counters=frozenset(
            name for one in METRICS if one.kind in COUNTED for name in one.samples
        ),
        recorded=frozenset(one.name for one in RECORDED),
        runbooks=frozenset(
            path.stem for path in (ROOT / "deploy" / "runbooks").glob("*.md")
        ),
        panels={
            board.uid: frozenset(
                placed.number
                for placed in board.placed()
                if isinstance(placed.what, BoardPanel)
            )
            for board in BOARDS
        },
    )


KNOWN = known_series()


@functools.cache
def rule_file(name: str) -> Node:
    """One of the files; many tests read it, and parsing takes a second."""
    loaded: Node = yaml.safe_load((ROOT / "deploy" / "prometheus" / name).read_text())
    return loaded


def rule_groups() -> list[Node]:
    """The groups of both files, as Prometheus reads them; whoever asks may change them."""
    read = [copy.deepcopy(rule_file(name)) for name in FILES]
    return [group for one in read for group in one["groups"]]


@functools.cache
def board(name: str) -> Node:
    """A dashboard, as Grafana reads it."""
    file = ROOT / "grafana" / "dashboards" / f"{name}.json"
    loaded: Node = json.loads(file.read_text())
    return loaded


def test_rules_are_clean() -> None:
    """Nothing is complained of."""
    assert list(rule_lint.of_groups(rule_groups(), KNOWN)) == []


@pytest.mark.parametrize("name", ["fleet", "box", "run", "memory", "gpu"])
def test_dashboards_are_clean(name: str) -> None:
    """Nothing is complained of."""
    assert list(dashboard_lint.of_board(board(name), KNOWN)) == []


def test_the_list_is_whole() -> None:
    """Each check of the lists is one of ours, or it is said who sees to it."""
    ours = {*rule_lint.OF_ANY, *rule_lint.OF_ALERTS, *rule_lint.OF_RECORDED}
    ours |= {*SIDE_BY_SIDE, *dashboard_lint.CHECKS}
    listed = {**PINT, **MIXTOOL, **DASHBOARD_LINTER}
    assert {check for check, why in listed.items() if not why} == ours


Change = Callable[[Node], object]


def asks(expr: str) -> Change:
    """The rule asks for something else."""
    return lambda rule: rule.update(expr=expr)


def says(**told: str) -> Change:
    """The alert tells something else."""
    return lambda rule: rule["annotations"].update(told)


STALLED, OOM = "TrainwardenTrainingStalled", "TrainwardenKernelOomKill"
GOODPUT = "instance_run:trainwarden_goodput:ratio_rate5m"
MEAN = "instance_run:trainwarden_step_duration_seconds:mean5m"
BROKEN_RULES: tuple[tuple[str, str, Change], ...] = (
    ("alerts/absent", "TrainwardenExporterAbsent", lambda rule: rule.pop("for")),
    ("alerts/annotation", STALLED, lambda rule: rule["annotations"].pop("summary")),
    ("alerts/annotation", STALLED, says(__panelId__="4711")),
    ("alerts/comparison", STALLED, asks("trainwarden_heartbeat_age_seconds")),
    ("alerts/for", STALLED, lambda rule: rule.update({"for": "0m"})),
    ("alerts/for", STALLED, lambda rule: rule.update({"for": "soon"})),
    ("alerts/template", STALLED, says(summary="{{ $labels.gpu }} stands still.")),
    ("alerts/template", OOM, says(summary="The kernel killed {{ $labels.cause }}.")),
    ("alerts/template", OOM, lambda rule: rule["labels"].update(of="{{ $value }}")),
    ("promql/aggregate", OOM, asks("sum by (run) (trainwarden_phase) > 0")),
    ("promql/aggregate", OOM, asks("sum(trainwarden_phase) > 0")),
    ("promql/aggregate", OOM, asks("trainwarden_phase > on (run) trainwarden_step")),
    ("promql/counter", OOM, asks("trainwarden_restarts_total > 3")),
    ("promql/features", OOM, asks("limitk(3, trainwarden_phase) > 0")),
    ("promql/fragile", OOM, asks("topk by (instance) (3, trainwarden_step) > 0")),
    ("promql/fragile", OOM,
     asks("sum by (instance) (trainwarden_step) / sum by (instance) (trainwarden_loss) > 1")),
    ("promql/impossible", OOM, asks("sum by (instance, pid) (trainwarden_step) > 0")),
    ("promql/impossible", OOM,
     asks("max by (instance, run) (sum by (instance) (trainwarden_step)) > 0")),
    ("promql/nan", OOM,
     asks("sum by (instance) (trainwarden_step / trainwarden_samples) > 0")),
    ("promql/range_query", OOM, asks("avg_over_time(trainwarden_step[30d]) > 0")),
    ("promql/range_query", OOM, asks("trainwarden_step offset 5w > 0")),
    ("promql/rate", OOM, asks("rate(trainwarden_step[5m]) > 0")),
    ("promql/rate", OOM, asks("rate(trainwarden_restarts_total[30s]) > 0")),
    ("promql/rate", OOM, asks("deriv(trainwarden_restarts_total[5m]) > 0")),
    ("promql/regexp", OOM, asks('trainwarden_phase{phase=~"training"} > 0')),
    ("promql/regexp", OOM, asks('trainwarden_phase{phase=~"^train.*"} > 0')),
    ("promql/series", OOM, asks("trainwarden_heartbeats_age_seconds > 0")),
    ("promql/series", OOM, asks('trainwarden_phase{gpu="1"} > 0')),
    ("rule/label", STALLED, lambda rule: rule["labels"].update(severity="page")),
    ("rule/link", STALLED, says(runbook_url="TrainwardenTrainingStalled.md")),
    ("rule/link", STALLED, says(runbook_url="https://wiki.example/Nothing.md")),
    ("alert-name-camelcase", STALLED, lambda rule: rule.update(alert="training_stalled")),
    ("alert-description-templating", STALLED, says(description="Something is wrong.")),
    ("alert-summary-style", STALLED, says(summary="it stands still")),
    ("rule/name", MEAN, lambda rule: rule.update(record="step_mean")),
    ("rule/topk", MEAN, asks("topk by (instance) (3, trainwarden_step)")),
    ("rule/duplicate", STALLED, lambda rule: rule.update(alert=OOM)),
    ("rule/dependency", GOODPUT, lambda rule: rule.update(record=f"{GOODPUT}_new")),
)  # fmt: skip
"""The check that has to complain, the rule, and what is wrong with it now."""


def rule_in(groups: list[Node], name: str) -> Node:
    """The rule of that name."""
    (found,) = (
        rule
        for group in groups
        for rule in group["rules"]
        if rule_lint.name_of(rule) == name
    )
    loaded: Node = found
    return loaded


@pytest.mark.parametrize(
    ("check", "name", "change"),
    BROKEN_RULES,
    ids=[f"{check}-{place}" for place, (check, *_) in enumerate(BROKEN_RULES)],
)
def test_a_broken_rule_is_found(check: str, name: str, change: Change) -> None:
    """By the check that is for it."""
    groups = rule_groups()
    change(rule_in(groups, name))
    assert check in names(rule_lint.of_groups(groups, KNOWN))


def test_what_is_recorded_is_asked_for() -> None:
    """Not worked out again; and groups are evaluated often enough."""
    groups = rule_groups()
    recorded = rule_in(groups, MEAN)["expr"]
    rule_in(groups, OOM)["expr"] = f"({recorded})  > 1"
    groups[0]["interval"] = "10m"
    assert names(rule_lint.of_groups(groups, KNOWN)) >= {
        "promql/performance",
        "group/interval",
    }


@pytest.mark.parametrize(
    "broken", ["up ==", "sum by instance (up) > 0", "rate(up) > 0"]
)
def test_promtool_finds_what_is_no_promql(
    broken: str, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Syntax and types are left to it."""
    rules = [{"alert": "Broken", "expr": broken}]
    file = tmp_path / "broken.yml"
    file.write_text(json.dumps({"groups": [{"name": "broken", "rules": rules}]}))
    done = subprocess.run(
        [tool("promtool"), "check", "rules", str(file)],
        check=False,
        capture_output=True,
    )
    assert done.returncode != 0


def panel(made: Node, title: str) -> Any:
    """The panel of that title."""
    return next(one for one in made["panels"] if one["title"] == title)


def target(made: Node, title: str) -> Any:
    """The first query of a panel."""
    return panel(made, title)["targets"][0]


def replaced(title: str, pattern: str, new: str) -> Change:
    """A panel whose first query asks something else."""

    def change(made: Node) -> None:
        asked = target(made, title)
        expr = re.sub(pattern, new, asked["expr"])
        assert expr != asked["expr"]
        asked["expr"] = expr

    return change


def variable(made: Node, name: str) -> Any:
    """What is chosen under that name."""
    return next(one for one in made["templating"]["list"] if one["name"] == name)


STEP, QUANTILES = "Steps a second", "Quantiles of a step"
BROKEN_BOARDS: tuple[tuple[str, Change], ...] = (
    ("dashboard-title-uid", lambda made: made.pop("title")),
    ("dashboard-time-refresh", lambda made: made.pop("refresh")),
    ("uneditable-dashboard", lambda made: made.update(editable=True)),
    ("template-datasource-rule", lambda made: made["templating"]["list"].pop(0)),
    ("template-instance-rule", lambda made: variable(made, "instance").update(multi=False)),
    ("template-instance-rule", lambda made: variable(made, "instance").update(name="box")),
    ("template-label-promql-rule",
     lambda made: variable(made, "run")["query"].update(query="label_values(run)")),
    ("template-label-promql-rule",
     lambda made: variable(made, "run")["query"].update(
         query="label_values(trainwarden_nothing, run)")),
    ("template-on-time-change-reload-rule",
     lambda made: variable(made, "run").update(refresh=1)),
    ("panel-datasource-rule",
     lambda made: panel(made, STEP)["datasource"].update(uid="P1809F7CD0C75ACF3")),
    ("panel-datasource-rule",
     lambda made: target(made, STEP)["datasource"].update(uid="P1809F7CD0C75ACF3")),
    ("panel-title-description-rule", lambda made: panel(made, STEP).pop("description")),
    ("panel-units-rule",
     lambda made: panel(made, STEP)["fieldConfig"]["defaults"].pop("unit")),
    ("panel-units-rule",
     lambda made: panel(made, "Size of a snapshot")["fieldConfig"]["defaults"].update(
         unit="short")),
    ("panel-no-targets-rule", lambda made: panel(made, STEP).pop("targets")),
    ("panel-legend-rule", lambda made: target(made, STEP).pop("legendFormat")),
    ("target-rate-interval-rule", replaced(STEP, r"\$__rate_interval", "5m")),
    ("target-instance-rule", replaced(STEP, r'instance=~"\$instance",', "")),
    ("target-counter-agg-rule",
     replaced(STEP, r"^.*$", "rate(sum by (instance) (trainwarden_restarts_total)[5m:])")),
    ("target-histogram-rule", replaced(QUANTILES, r", le\)", ")")),
    ("target-series-rule", replaced(STEP, "trainwarden_step_duration", "trainwarden_stop")),
)  # fmt: skip
"""The check that has to complain, and what is wrong with the dashboard of runs now."""


@pytest.mark.parametrize(
    ("check", "change"),
    BROKEN_BOARDS,
    ids=[f"{check}-{place}" for place, (check, _) in enumerate(BROKEN_BOARDS)],
)
def test_a_broken_dashboard_is_found(check: str, change: Change) -> None:
    """By the check that is for it."""
    made = copy.deepcopy(board("run"))
    change(made)
    assert check in names(dashboard_lint.of_board(made, KNOWN))


def test_every_check_finds_a_mistake() -> None:
    """None is there in vain."""
    found = {check for check, *_ in BROKEN_RULES} | {
        check for check, _ in BROKEN_BOARDS
    }
    ours = {*rule_lint.OF_ANY, *rule_lint.OF_ALERTS, *rule_lint.OF_RECORDED}
    ours |= {*dashboard_lint.CHECKS, "rule/duplicate", "rule/dependency"}
    assert found == ours
