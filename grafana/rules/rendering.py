"""Rules, and promtool's tests of them, as YAML."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from grafana.rules.alert import BOX, RUNBOOKS, Alert, AlertCase, on_box, told
from grafana.rules.box_alerts import BOX_ALERTS
from grafana.rules.gpu_alerts import GPU_ALERTS
from grafana.rules.memory_alerts import MEMORY_ALERTS
from grafana.rules.recording_rules import RECORDED
from grafana.rules.run_alerts import RUN_ALERTS
from grafana.rules.snapshot_alerts import SNAPSHOT_ALERTS

ALERTS: Mapping[str, tuple[Alert, ...]] = {
    "trainwarden-runs": (*RUN_ALERTS, *MEMORY_ALERTS, *SNAPSHOT_ALERTS),
    "trainwarden-gpus": GPU_ALERTS,
    "trainwarden-boxes": BOX_ALERTS,
}
"""By the name of their group."""
EVERY_ALERT = tuple(alert for group in ALERTS.values() for alert in group)
RECORDING = "trainwarden-recorded"
WRITTEN = "# Written by `make generated` from grafana/rules; change it there.\n"
EDGE_MINUTES = 1
"""Prometheus 3 leaves the oldest edge of a window out, and is a minute earlier or later."""
SELDOM_MINUTES = 5

PanelId = Callable[[str, str], int]
"""The id of a panel, by the uid of its dashboard and its title."""
Node = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Long expressions stay as they were written."""


def _text(_dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: object) -> str:
    """``value``, for people too."""
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, width=88, allow_unicode=True
    )


def recording_file() -> str:
    """``recording.yml``."""
    rules = [{"record": one.name, "expr": one.expr} for one in RECORDED]
    about = "".join(f"# {one.name}\n#   {one.about}\n" for one in RECORDED)
    group = {"name": RECORDING, "interval": "1m", "rules": rules}
    return WRITTEN + about + as_yaml({"groups": [group]})


def alerts_file(panel_id: PanelId) -> str:
    """``alerts.yml``."""
    about = "".join(
        f"# {alert.name}: {alert.why}\n" for alert in EVERY_ALERT if alert.why
    )
    groups = [
        {"name": name, "rules": [alert_rule(alert, panel_id) for alert in alerts]}
        for name, alerts in ALERTS.items()
    ]
    return WRITTEN + about + as_yaml({"groups": groups})


def alert_rule(alert: Alert, panel_id: PanelId) -> Node:
    """One rule, as Prometheus reads it."""
    hold = {} if alert.hold == "0m" else {"for": alert.hold}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **hold,
        "labels": {"severity": alert.severity.value},
        "annotations": annotations(alert, panel_id),
    }


def annotations(alert: Alert, panel_id: PanelId) -> dict[str, str]:
    """What whoever is told reads, and where they look."""
    uid, title = alert.panel
    return {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": f"{RUNBOOKS}/{alert.name}.md",
        "__dashboardUid__": uid,
        "__panelId__": str(panel_id(uid, title)),
    }


def tests_file(panel_id: PanelId) -> str:
    """``alerts_test.yml``, for ``promtool test rules``."""
    return WRITTEN + as_yaml(
        {
            "rule_files": ["recording.yml", "alerts.yml"],
            "evaluation_interval": "1m",
            "group_eval_order": [RECORDING, *ALERTS],
            "tests": [
                promtool_test(alert, case, panel_id)
                for alert in EVERY_ALERT
                for case in alert.cases
            ],
        }
    )


def promtool_test(alert: Alert, case: AlertCase, panel_id: PanelId) -> Node:
    """One story, as ``promtool test rules`` reads it."""
    series = [
        {"series": on_box(name), "values": values}
        for name, values in case.series.items()
    ]
    fired = [_fired(alert, case, labels, panel_id) for labels in case.labels]
    checks = [
        _check(alert, minute, fired if fires else []) for minute, fires in looks(case)
    ]
    return {
        "name": f"{alert.name}: {case.about}",
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": checks,
    }


def looks(case: AlertCase) -> Iterator[tuple[int, bool]]:
    """When promtool looks, in minutes, and whether the alert fires then: every minute of a
    case in which it never does; else now and then before, and just before and after."""
    if case.fires is None:
        yield from ((minute, False) for minute in range((case.silent or 0) + 1))
        return
    just_before = case.fires - 1 - EDGE_MINUTES
    yield from ((minute, False) for minute in range(0, just_before, SELDOM_MINUTES))
    yield just_before, False
    yield case.fires + EDGE_MINUTES, True
    if case.resolved is not None:
        yield case.resolved - 1 - EDGE_MINUTES, True
        yield case.resolved + EDGE_MINUTES, False


def _check(alert: Alert, minute: int, fired: list[Node]) -> Node:
    return {
        "eval_time": f"{minute}m",
        "alertname": alert.name,
        "exp_alerts": fired,
    }


def _fired(
    alert: Alert, case: AlertCase, labels: Mapping[str, str], panel_id: PanelId
) -> Node:
    box = {"instance": BOX} if case.instance else {}
    known = {"severity": alert.severity.value, **box, **labels}
    notes = {
        name: told(text, known) for name, text in annotations(alert, panel_id).items()
    }
    return {"exp_labels": known, "exp_annotations": notes}
