"""Dashboards and rules before a real Prometheus that watches two real boxes."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from grafana.boards.board import BoardPanel
from grafana.boards.every_board import BOARDS
from grafana.rules.recording_rules import RECORDED
from grafana.rules.rendering import EVERY_ALERT
from tests.support.night import Night, asked, everything_wrong, night, worsen
from tests.support.prometheus import results, until

NOT_HERE = {
    "trainwarden_cgroup_": "in no memory cgroup of its own without systemd",
    "trainwarden_processes_proportional_": "measured once in a while",
    "trainwarden_gpu_last_xid": "there was no Xid in health",
    "trainwarden_memory_forecast_": "memory does not grow in health",
    "trainwarden_remote_": "only `run` sends snapshots beyond the machine",
    "trainwarden_standby_": "a standby waits only where a job asks for one",
}
"""What has no data on two healthy boxes, and why; a fault, or the third box, fills it."""
OF_THE_FAILING_BOX = {
    "TrainwardenGaveUp",
    "TrainwardenGpuEccErrors",
    "TrainwardenGpuLost",
    "TrainwardenGpuRemapFailed",
    "TrainwardenGpuRemapPending",
    "TrainwardenGpuThermalThrottling",
    "TrainwardenGpuXidHardware",
    "TrainwardenGpuXidSoftware",
    "TrainwardenRestartLoop",
}
"""Real faults: of a script, and of what the driver says through a real probe."""
OF_THE_THIRD_BOX = {
    "TrainwardenCollectorFailing",
    "TrainwardenGpuDriverHangs",
    "TrainwardenGpuKeptOut",
    "TrainwardenHostMemoryLeak",
    "TrainwardenJobWaitsTooLong",
    "TrainwardenLedgerInMemory",
    "TrainwardenMemoryForecast",
    "TrainwardenNonFiniteLoss",
}
"""What a real exporter says of a machine that is made up: it fills every panel. Faults that
are real fire every alert in ``test_alerts_by_faults_slow``."""


QUERIES = [
    (board.uid, panel, query.expr)
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]
ANNOTATIONS = [note.expr for board in BOARDS for note in board.annotations]
ALERTS = {alert.name: alert.expr for alert in EVERY_ALERT}


def may_be_empty(panel: BoardPanel, query: str) -> bool:
    """Whether it is said why the query has no data in health."""
    return bool(panel.empty_because) or any(name in query for name in NOT_HERE)


def until_data(made: Night, query: str) -> None:
    """Wait until there is some."""
    until(lambda: results(made.prometheus, query) or None, f"there is data: {query}")


def names(made: Night, query: str) -> set[tuple[str, str]]:
    """Box and run, or GPU, of each series of the answer."""
    told = results(made.prometheus, query)
    labels = [one["metric"] for one in told]
    return {
        (one["instance"], one.get("run", one.get("gpu", "")))
        for one in labels
        if "instance" in one
    }


def test_a_night(tool: Callable[[str], str], library: Path, tmp_path: Path) -> None:
    """Two boxes with jobs of equal names, incidents, GPUs, and then faults:

    every query of every panel and rule parses, and has data on healthy boxes, unless it
    is said why not; the box that is chosen separates equal names; every fault fires its
    alert; and what was empty in health fills.
    """
    with night(tmp_path, library, tool) as made:
        in_health(made)
        equal_names_stay_apart(made)
        with everything_wrong(made):
            what_was_empty_fills(made)
            worsen(made)
            every_fault_fires(made)


def in_health(made: Night) -> None:
    """Each panel has its data, but for what is named."""
    for _, panel, query in QUERIES:
        if may_be_empty(panel, query):
            results(made.prometheus, asked(query))  # it parses
        else:
            until_data(made, asked(query))
    for query in ANNOTATIONS:
        results(made.prometheus, asked(query))
    for one in RECORDED:
        results(made.prometheus, one.expr)
        if not any(name in one.name for name in NOT_HERE):
            until_data(made, one.name)
    box = made.boxes[0]
    for name in OF_THE_FAILING_BOX | OF_THE_THIRD_BOX:
        firing = f'ALERTS{{alertname="{name}",instance="{box}"}}'
        assert not results(made.prometheus, firing), name


def equal_names_stay_apart(made: Night) -> None:
    """Both boxes have a run `train`, and GPUs of one name: nothing sums them up."""
    state = 'trainwarden_run_state{run="train",state="running"} == 1'
    assert {box for box, _ in names(made, state)} == set(made.boxes)
    for _, _, query in QUERIES:
        if not re.search(r"by \([^)]*\b(?:run|gpu)\b", query):
            continue
        both = names(made, asked(query))
        for place, box in enumerate(made.boxes):
            alone = names(made, made.only(query, place))
            assert {one for one, _ in alone} <= {box}, query
            assert {one for one in alone if one[1]} <= both | alone, query


def what_was_empty_fills(made: Night) -> None:
    """On a box where everything is wrong every query has data."""
    for _, panel, query in QUERIES:
        if may_be_empty(panel, query):
            until_data(made, asked(query, instance=made.wrong))
    for query in ANNOTATIONS:
        until_data(made, asked(query))


def every_fault_fires(made: Night) -> None:
    """Each alert that can be had here has its series, on the box with the fault."""
    for those, box in (
        (OF_THE_FAILING_BOX, made.boxes[1]),
        (OF_THE_THIRD_BOX, made.wrong),
    ):
        for name in those:
            until(partial(_fires, made, name, box), f"{name} would fire for {box}")
    for expr in ALERTS.values():
        results(made.prometheus, expr)  # each of the others parses


def _fires(made: Night, name: str, box: str) -> bool | None:
    found = results(made.prometheus, ALERTS[name])
    return any(one["metric"]["instance"] == box for one in found) or None
