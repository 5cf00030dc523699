"""The end of an attempt, and what a double of NVML has to say of it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.driver_wait import BUSY_SECONDS
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.lifecycle.events import Exited
from supervisor.host.exporter.machine_monitor import MachineMonitor, default_places
from supervisor.host.gpu.gpu_access import DriverReporter
from supervisor.runtime.attempts.pending_exit import PendingExit
from tests.support.fake_nvml import GIB, FakeNvml

DEADLINE_SECONDS = 60.0
OURS = 2**22 + 7
"""No process has this number."""
ABORTED = Exited(
    evidence=Evidence(exit=record_of(None, 6)), last_step=9, snapshot_step=5
)


@pytest.fixture
def nvml(library: Path, tmp_path: Path) -> FakeNvml:
    """Two healthy GPUs; a process of ours is on the first."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    fake.set({"0.processes": f"{OURS}:{GIB}:{2**32 - 1}"})
    return fake


@pytest.fixture
def observer(nvml: FakeNvml, tmp_path: Path) -> Iterator[MachineMonitor]:
    """An observer that has had its first reading."""
    made = MachineMonitor(
        places=default_places(tmp_path, None), gpus=None, environment=nvml.environment
    )
    made.start()
    until(made.readings)
    yield made
    made.close()


def until(ask: Callable[[], object]) -> object:
    """Wait until it is so; what it is."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not (found := ask()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found


def ending(
    observer: MachineMonitor, *pids: int, exited: Exited = ABORTED
) -> PendingExit:
    """An attempt that ends now."""
    return PendingExit(
        exited=exited,
        at=time.monotonic(),
        driver=observer.devices_of(None).faults,
        gpus=observer.readings,
        pids=frozenset(pids),
    )


def test_what_the_driver_says_after_the_end(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """The GPU falls off the bus in the moment of the crash: that is the diagnosis, and
    the readings of the box are from after it."""
    over = ending(observer, OURS)
    nvml.set({"0.lost": 1})
    nvml.xid(0, 79)
    assert over.known(now=over.at) is None
    exited = until(lambda: over.known(now=over.at))
    assert isinstance(exited, Exited)
    assert diagnose(exited.evidence).cause is Cause.GPU_HARDWARE
    assert exited.evidence.faulty_gpus == ("GPU-00000000-fake",)
    assert exited.evidence.gpus[0].memory is None
    assert (exited.last_step, exited.snapshot_step) == (9, 5)


def test_a_gpu_that_was_lost_before(observer: MachineMonitor, nvml: FakeNvml) -> None:
    """What befell the attempt before is not held against the next one."""
    nvml.set({"0.lost": 1})
    until(lambda: any(gpu.lost for gpu in observer.readings()))
    over = ending(observer, OURS)
    exited = until(lambda: over.known(now=over.at))
    assert isinstance(exited, Exited)
    assert diagnose(exited.evidence).cause is Cause.NATIVE_CRASH


def test_nothing_to_wait_for(observer: MachineMonitor) -> None:
    """An attempt that never used a GPU, one that ended well, and one that nobody asks
    the driver for are decided at once."""
    without = ending(observer, OURS + 1)
    assert without.known(now=without.at) is not None
    evidence = Evidence(exit=record_of(0, None), finished=True)
    well = Exited(evidence=evidence, last_step=9, snapshot_step=9)
    finished = ending(observer, OURS, exited=well)
    assert finished.known(now=finished.at) is not None
    alone = PendingExit(exited=ABORTED, at=0.0, driver=DriverReporter(), gpus=tuple)
    assert alone.known(now=0.0) == ABORTED


def test_a_driver_that_does_not_answer(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """A wedged driver holds the decision up for a bounded time only."""
    nvml.set({"hang.nvmlDeviceGetMemoryInfo_v2": 1})
    driver = observer.devices_of(None).faults
    until(lambda: time.monotonic() - (driver.word(()).begun or 0) > 2)
    over = ending(observer, OURS)
    assert over.known(now=over.at + BUSY_SECONDS - 0.01) is None
    assert over.known(now=over.at + BUSY_SECONDS) is not None


def test_a_driver_that_lists_no_processes(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """Where the driver does not say who is on a GPU, it may be anybody's."""
    nvml.set({"error.nvmlDeviceGetComputeRunningProcesses": 999})
    assert not observer.devices_of(None).faults.word({OURS + 1}).used
    nvml.gpus(3)
    nvml.set({"error.nvmlDeviceGetComputeRunningProcesses_v3": 999})
    fresh = MachineMonitor(places={}, gpus=None, environment=nvml.environment)
    fresh.start()
    try:
        until(fresh.readings)
        assert fresh.devices_of(None).faults.word({OURS + 1}).used
    finally:
        fresh.close()
