"""A GPU probe that is a child, and one that a service keeps: the same is known of both.

Real probe processes and NVIDIA's binding, over a library whose answers a test writes.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from supervisor.core.gpu.probe_supervision import Mode
from supervisor.host.exporter.host_collector import HostView
from supervisor.host.exporter.machine_monitor import machine_of
from tests.support.fake_nvml import GIB, FakeNvml
from tests.support.freezer import frozen
from tests.support.kept import Kept
from tests.support.samples import sampled
from tests.support.watched import DEADLINE_SECONDS, Watched, probe, probes

BOTH = ("child", "service")


child_first = pytest.mark.parametrize("watched", sampled(BOTH, "child"), indirect=True)
"""Of a service it is slow: it keeps the same watch as a run does."""


@pytest.fixture(params=BOTH)
def watched(
    request: pytest.FixtureRequest, nvml: FakeNvml, kernel: Path, tmp_path: Path
) -> Iterator[Watched]:
    """A watch over two healthy GPUs. With a service, all comes from there."""
    with ExitStack() as held:
        if request.param == "child":
            made = Watched(nvml.environment, kernel)
        else:
            path = tmp_path / "probe.sock"
            kept = Kept(path, nvml.environment, kernel, tmp_path)
            held.enter_context(closing(kept))
            made = Watched({}, tmp_path / "none", link=path)
        held.enter_context(closing(made.watch))
        yield made


def test_the_figures_arrive(watched: Watched, nvml: FakeNvml) -> None:
    """What the driver says of each device, and who is on it."""
    nvml.set({"0.processes": "4711:1073741824:4294967295"})
    watched.sampled()
    first, second = watched.gpu(0), watched.gpu(1)
    assert (first.uuid, second.uuid) == ("GPU-00000000-fake", "GPU-00000001-fake")
    assert first.memory is not None
    assert (first.memory.total, first.memory.used) == (141 * GIB, 20 * GIB)
    assert [(p.pid, p.bytes) for p in first.processes or ()] == [(4711, GIB)]
    assert watched.watch.latest().users["GPU-00000000-fake"] == {4711}
    assert first.temperature_celsius == 61
    assert watched.watch.latest().kernel_readable


def test_an_xid_is_told_once(watched: Watched, nvml: FakeNvml, kernel: Path) -> None:
    """By NVML's event and by the kernel's line, as one."""
    watched.sampled()
    nvml.xid(1, 31)
    view = watched.until(lambda view: view.xids.xids, "an Xid is heard of")
    at = int(view.xids.xids[0].at * 1e6)
    line = "NVRM: Xid (PCI:0000:31:00): 31, pid=4711, name=python3, MMU Fault"
    with kernel.open("a") as log:
        log.write(f"6,1,{at},-;{line}\n")
    view = watched.until(lambda view: view.kernel, "the line is read")
    (xid,) = view.xids.xids
    assert (xid.code, xid.gpu, xid.text) == (31, "GPU-00000001-fake", line)
    assert view.xids.count("GPU-00000001-fake") == 1


@child_first
def test_what_fell_off_the_bus_stays_lost(watched: Watched, nvml: FakeNvml) -> None:
    """Also when a new probe cannot find it any more."""
    watched.sampled()
    nvml.set({"0.lost": 1})
    watched.until(lambda _: watched.gpu(0).lost, "it is lost")
    first = probe().pid
    os.kill(first, signal.SIGKILL)
    watched.until(lambda _: [p.pid for p in probes()] not in ([], [first]), "another")
    sample = watched.sampled().sample
    assert sample is not None
    assert {gpu.uuid for gpu in sample.gpus if gpu.lost} == {"GPU-00000000-fake"}


@child_first
def test_a_driver_that_never_returns(watched: Watched, nvml: FakeNvml) -> None:
    """The probe is replaced, and that is said once; nobody waits for it."""
    watched.sampled()
    first = probe().pid
    nvml.set({"hang.nvmlDeviceGetTemperature": 1})
    watched.until(lambda view: view.problem, "it is missed")
    nvml.set({"hang.nvmlDeviceGetTemperature": None})
    watched.until(lambda view: not view.problem, "another one answers")
    assert probe().pid != first
    assert watched.said == [
        "The GPU driver did not answer in time. Its probe is replaced."
    ]


@child_first
def test_a_probe_that_cannot_be_killed(watched: Watched) -> None:
    """In D state it is not replaced, a reboot is asked for, and nobody ever waits; when
    it ends after all, the GPUs are watched again."""
    watched.sampled()
    stuck = probe().pid
    with frozen(stuck):
        view = watched.until(lambda view: view.reboot, "it is given up")
        assert view.mode is Mode.STUCK
        assert "Reboot" in watched.said[-1]
        began = time.monotonic()
        for _ in range(1000):
            watched.watch.latest()
        assert time.monotonic() - began < DEADLINE_SECONDS
        assert [child.pid for child in probes()] == [stuck]
    watched.until(lambda view: not (view.problem or view.reboot), "another one answers")
    assert probe().pid != stuck
    assert watched.said[-1].startswith("The GPU driver answers again")


@child_first
def test_nvml_that_goes_away(watched: Watched, nvml: FakeNvml) -> None:
    """A machine that had GPUs is no machine without any: its collector fails."""
    watched.sampled()
    nvml.set({"error.nvmlInit_v2": 9})
    os.kill(probe().pid, signal.SIGKILL)
    view = watched.until(lambda view: view.absent, "it says that it is gone")
    assert not view.reboot
    later = time.monotonic() + 3600.0
    machine = machine_of(view, HostView(), now=later, expected=False)
    assert not machine.collectors["nvml"].success
