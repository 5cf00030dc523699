"""Every alert is fired by a real fault: rules in a hurry, evaluated by a real Prometheus over
what real daemons export, holds and all; and each that can be mended is over then.

A minute of the rules is a second here (``hurried_rules``); what is seen and by how much it
must differ stays. promtool sees each alert's own times (``alerts_test.yml``).
"""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.lint import promql
from grafana.rules.recording_rules import RECORDED
from grafana.rules.rendering import EVERY_ALERT
from tests.chaos.table import TABLE
from tests.support.faults_at_night import (
    MIB,
    FaultyBox,
    FaultyNight,
    begin_training,
    disturb,
    faulty_night,
    fill_up,
    go_wrong,
    lose_a_gpu,
    memory_cgroup,
    restart,
    stop,
)
from tests.support.hurried_rules import hurried
from tests.support.prometheus import results, until_answered

PATIENCE = 600.0
"""Seconds for all of them: the one for a job that waits takes four minutes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, and the alert that it fires."""

    alert: str
    about: str
    box: str = "sick"
    of: str = ""
    """More of the alert's labels, as PromQL selects them."""
    chaos: str = ""
    """The row of the chaos table that commits the same fault."""

    def firing(self, made: FaultyNight) -> str:
        """What Prometheus is asked."""
        box: FaultyBox = getattr(made, self.box)
        return (
            f'ALERTS{{alertname="Trainwarden{self.alert}",alertstate="firing",'
            f'instance="{box.target}"{self.of}}}'
        )


FAULTS = (
    Fault(alert="TrainingStalled", about="SIGSTOP", of=',run="stuck"', chaos="stopped"),
    Fault(alert="SnapshotStale", about="SIGSTOP", of=',run="stuck",tier="durable"'),
    Fault(alert="GoodputLow", about="SIGSTOP", of=',run="stuck"'),
    Fault(alert="StepsSlow", about="steps take much longer", of=',run="slows"'),
    Fault(alert="RestartLoop", about="SIGSEGV again and again", of=',run="crashes"',
          chaos="segv-again"),
    Fault(alert="GaveUp", about="SIGSEGV until it gives up", of=',run="crashes"',
          chaos="segv-again"),
    Fault(alert="MemoryForecast", about="tensors are kept",
          of=',run="leaks",resource="device"'),
    Fault(alert="HostMemoryLeak", about="arrays are kept", of=',run="hoards"'),
    Fault(alert="Fragmentation", about="much is free, in pieces", of=',run="pieces"',
          chaos="fragmentation"),
    Fault(alert="KernelOomKill", about="the kernel's OOM killer", of=',run="eats"',
          chaos="host-killed"),
    Fault(alert="NonFiniteLoss", about="weights become NaN", of=',run="loses"',
          chaos="nan-again"),
    Fault(alert="GpuAllocatedIdle", about="a script that uses none", of=',run="holds"'),
    Fault(alert="JobWaitsTooLong", about="four GPUs are never free"),
    Fault(alert="GpuLost", about="falls off the bus", chaos="gpu-of-others"),
    Fault(alert="GpuEccErrors", about="uncorrectable errors", chaos="gpu-ecc"),
    Fault(alert="GpuRemapFailed", about="no spare row is left"),
    Fault(alert="GpuRemapPending", about="a reset is due"),
    Fault(alert="GpuThermalThrottling", about="too hot"),
    Fault(alert="GpuPowerThrottling", about="a power brake"),
    Fault(alert="GpuXidHardware", about="Xid 48", of=',kind="memory"', chaos="gpu-ecc"),
    Fault(alert="GpuXidSoftware", about="six times Xid 31", of=',kind="software"',
          chaos="gpu-xid"),
    Fault(alert="GpuKeptOut", about="Xid 79 under a run, SIGABRT",
          of=',reason="quarantine"', chaos="gpu-lost"),
    Fault(alert="SnapshotFailing", about="a full disk", box="full",
          of=',run="saves",tier="durable"'),
    Fault(alert="LedgerInMemory", about="a full disk", box="full"),
    Fault(alert="FilesystemWillFill", about="a full disk", box="full",
          of=',filesystem="state"'),
    Fault(alert="CollectorFailing", about="no kernel log", box="away",
          of=',collector="kernel_log"'),
    Fault(alert="GpuDriverHangs", about="a call that never returns", box="away",
          chaos="gpu-wedged"),
    Fault(alert="DaemonRestarts", about="SIGKILL, three times", box="away"),
)  # fmt: skip
"""What is waited for side by side."""
AT_THE_END = {
    "TrainwardenBoxDown": "a daemon that is killed and not started again",
    "TrainwardenExporterAbsent": "all of them",
}
MENDED = {"TrainingStalled", "GoodputLow", "SnapshotStale"}
"""By SIGCONT."""
REMOTE = "the boxes here are daemons, and those send nothing elsewhere"
PROMTOOL_ALONE: dict[str, str] = {
    "TrainwardenRemoteSnapshotFailing": REMOTE,
    "TrainwardenRemoteSnapshotStale": REMOTE,
}
"""Alerts that no fault can fire here within minutes, and why."""


def test_every_alert_has_its_fault() -> None:
    """Or a reason why promtool alone has to do; the rows of the chaos table are there."""
    named = [f"Trainwarden{fault.alert}" for fault in FAULTS]
    covered = [*named, *AT_THE_END, *PROMTOOL_ALONE]
    assert sorted(covered) == sorted(alert.name for alert in EVERY_ALERT)
    assert {fault.chaos for fault in FAULTS} - {""} <= {row.name for row in TABLE}


@pytest.mark.parametrize(
    "expr", [*(one.expr for one in EVERY_ALERT), *(one.expr for one in RECORDED)]
)
def test_rules_hurry(expr: str) -> None:
    """Every window and offset is a sixtieth of what it was, and nothing else moved."""
    before = [promql.seconds(span) for span in promql.spans(expr)]
    after = [promql.seconds(span) for span in promql.spans(hurried(expr))]
    assert [60 * span for span in after] == before
    assert promql.series(hurried(expr)) == promql.series(expr)


@pytest.mark.slow
def test_faults_fire_alerts(
    tool: Callable[[str], str], library: Path, tmp_path: Path
) -> None:
    """All of them, on the box and the run with the fault, and none on the box that is
    well; what is mended is over; and what is down, or nowhere, is told as such."""
    with (
        memory_cgroup(300 * MIB) as cgroup,
        faulty_night(tmp_path, library, tool) as made,
    ):
        begin_training(made)
        until_they_train(made)
        go_wrong(made, cgroup)
        disturb(made)
        happenings = (restarting(made), fill_up(made))
        left = list(FAULTS)
        until(made, lambda: waited(made, left, happenings))
        assert well(made) == []
        stop(made, signal.SIGCONT)
        mended = [fault for fault in FAULTS if fault.alert in MENDED]
        until(made, lambda: [one for one in mended if results_of(made, one)])
        end(made)


def until(made: FaultyNight, left: Callable[[], list[Fault]]) -> None:
    """Wait until nothing is left."""
    ends = time.monotonic() + PATIENCE
    while waits_for := left():
        if time.monotonic() > ends:
            pytest.fail(f"in vain, at {made.prometheus}: {waits_for}")
        time.sleep(0.5)


def until_they_train(made: FaultyNight) -> None:
    """Until there is something to disturb: a pace, and an interval of snapshots."""
    for box, run in ((made.well, "train"), (made.sick, "slows")):
        labels = f'{{instance="{box.target}",run="{run}"}}'
        until_answered(
            made.prometheus,
            f"instance_run:trainwarden_goodput:ratio_rate5m{labels} offset 1m",
        )
    for box, run in ((made.sick, "stuck"), (made.full, "saves")):
        labels = f'{{instance="{box.target}",run="{run}",tier="durable"}}'
        until_answered(made.prometheus, f"trainwarden_snapshots_total{labels} > 1")


def restarting(made: FaultyNight) -> Iterator[None]:
    """A daemon that is killed, each time it has been seen."""
    for _ in range(3):
        restart(made.away)
        yield
    lose_a_gpu(made)
    yield


def waited(
    made: FaultyNight, left: list[Fault], happenings: tuple[Iterator[None], ...]
) -> list[Fault]:
    """What has still not fired, after something more has happened."""
    for happening in happenings:
        next(happening, None)
    for fault in tuple(left):
        if results_of(made, fault):
            left.remove(fault)
    return left


def results_of(made: FaultyNight, fault: Fault) -> bool:
    """Whether its alert fires."""
    return bool(results(made.prometheus, fault.firing(made)))


def well(made: FaultyNight) -> list[str]:
    """Alerts that fired for the box to which nothing happened."""
    query = (
        "max_over_time(ALERTS"
        f'{{alertstate="firing",instance="{made.well.target}"}}[1h])'
    )
    return [one["metric"]["alertname"] for one in results(made.prometheus, query)]


def end(made: FaultyNight) -> None:
    """Daemons die, one, then all: what is told of it."""
    firing = 'ALERTS{alertstate="firing",alertname="Trainwarden%s"}'
    made.away.daemon.end(made.away.daemon.daemons[-1], signal.SIGKILL)
    until_answered(made.prometheus, firing % "BoxDown")
    for box in (made.well, made.sick, made.full):
        box.daemon.end(box.daemon.daemons[-1], signal.SIGKILL)
    until_answered(made.prometheus, firing % "ExporterAbsent")
