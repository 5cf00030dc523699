"""Everything that is measured, put together: around real probes and a double of NVML."""

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.gpu.gpu_readings import Gpu, GpuProcess
from supervisor.core.jobs.job_status import JobState, JobStatus, TierStatus
from supervisor.host.exporter import machine_monitor
from supervisor.host.exporter.exposition_cache import ExpositionCache, Form
from supervisor.host.exporter.host_collector import HostView
from supervisor.host.exporter.machine_monitor import (
    FaultsOf,
    MachineMonitor,
    default_places,
    gpu_expected,
    machine_of,
    strangers,
)
from supervisor.host.gpu.gpu_monitor import GpuView
from supervisor.host.service.clock import Clock
from supervisor.wire.page import STEP_BUCKETS_SECONDS
from tests.support.fake_nvml import GIB, FakeNvml
from tests.support.long_life import WoundClock
from tests.support.metrics import series_remembered
from tests.support.watched import Watched

DEADLINE_SECONDS = 60.0
OURS = 2**22 + 7
"""No process has this number."""


@pytest.fixture
def nvml(library: Path, tmp_path: Path) -> FakeNvml:
    """Two healthy GPUs; on the first a process of ours and one of somebody else."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(2)
    none = 2**32 - 1
    fake.set({"0.processes": f"{OURS}:{GIB}:{none},1:{2 * GIB}:{none}"})
    return fake


@pytest.fixture
def observer(nvml: FakeNvml, tmp_path: Path) -> Iterator[MachineMonitor]:
    """An observer with an exporter, of a machine with two GPUs."""
    board = ExpositionCache()
    made = MachineMonitor(
        places=default_places(tmp_path, None),
        gpus=None,
        board=board,
        environment=nvml.environment,
    )
    made.start()
    yield made
    made.close()


def until(ask: Callable[[], object]) -> None:
    """Wait until it is so."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not ask():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_readings(observer: MachineMonitor, nvml: FakeNvml) -> None:
    """Gates and remedies are told of each GPU, its memory and who is on it; one that is
    lost stays among them, so that it can be left out by name."""
    until(observer.readings)
    first, second = observer.readings()
    assert (first.uuid, first.index) == ("GPU-00000000-fake", 0)
    assert first.memory is not None
    assert first.memory.total == 141 * GIB
    name = Path("/proc/1/comm").read_text().strip()
    assert first.processes == (
        GpuProcess(pid=OURS, name="?", bytes=GIB),
        GpuProcess(pid=1, name=name, bytes=2 * GIB),
    )
    assert second.processes == ()
    nvml.set({"0.lost": 1})
    until(lambda: observer.readings() and observer.readings()[0].memory is None)
    assert observer.readings()[0].uuid == "GPU-00000000-fake"


def test_what_is_asked_for_seldom(nvml: FakeNvml, tmp_path: Path) -> None:
    """The ledger is not asked at each look which GPUs are given to nobody."""
    clock, asked = WoundClock(), list[float]()
    observer = MachineMonitor(
        places=default_places(tmp_path, None),
        gpus=None,
        board=ExpositionCache(),
        clock=clock,
        environment=nvml.environment,
    )

    told: dict[str, frozenset[str]] = {"out_of_service": frozenset()}

    def kept_out() -> dict[str, frozenset[str]]:
        asked.append(clock.now())
        return dict(told)

    for second in range(11):
        observer.show([], kept_out=kept_out)
        clock.wind(1.0)
        if second == 1:
            told["quarantine"] = frozenset({"GPU-a"})  # now that can be told, too
    assert [at - asked[0] for at in asked] == [0.0, 1.0, 2.0, 7.0]


def test_readings_are_made_once_a_sample(observer: MachineMonitor) -> None:
    """Whoever asks: each run does, at each look."""
    until(observer.readings)
    alike = [observer.readings() is observer.readings() for _ in range(20)]
    assert any(alike)


def _parts(gpu: Gpu) -> tuple[str, ...]:
    """The UUIDs of its MIG devices."""
    return tuple(one.uuid for one in gpu.mig)


def test_the_gpu_of_a_mig_device_is_that_of_its_run(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """An Xid names the whole GPU: it concerns a run that was given a part of it."""
    nvml.set({"1.mig": 1, "1.mig.2.uuid": "MIG-x", "1.mig.2.total": GIB})
    parts = ("MIG-x",)
    until(lambda: any(_parts(one) == parts for one in observer.readings()))
    faults_of, others = (
        observer.devices_of(["MIG-x"]).faults,
        observer.devices_of(["MIG-y"]).faults,
    )
    nvml.xid(1, 79)
    until(lambda: observer.gpus().xids.count("GPU-00000001-fake"))
    assert faults_of(set()).gpus == ("GPU-00000001-fake",)
    assert others(set()).gpus == ()


def test_faults_of_one_attempt_after_another(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """Each attempt hears of its own Xids only, and of none that came before it."""
    faults_of = observer.devices_of(None).faults
    until(observer.readings)
    nvml.xid(0, 31)
    nvml.xid(1, 79)
    until(lambda: observer.machine().xids.count("GPU-00000001-fake"))
    until(lambda: observer.machine().xids.count("GPU-00000000-fake"))
    faults = faults_of({OURS})
    assert [hit.signature for hit in faults.kernel.hits] == ["driver.xid_software"]
    assert faults.gpus == ()
    assert faults_of({OURS}).kernel.hits == ()
    nvml.xid(0, 48)
    until(lambda: observer.machine().xids.count("GPU-00000000-fake") == 2)
    assert faults_of({OURS}).gpus == ("GPU-00000000-fake",)


def _has_lines(watched: Watched, count: int) -> bool:
    return len(watched.watch.latest().kernel) == count


@pytest.mark.parametrize("same_namespace", [True, False])
def test_an_xid_of_somebody_else_on_the_same_gpu(
    nvml: FakeNvml,
    kernel: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    same_namespace: bool,
) -> None:
    """Two jobs on one GPU, each with a fault: a run hears of its own, as the driver lists
    the other. In a container the kernel's pids tell nothing, and it may be either."""
    monkeypatch.setattr(machine_monitor, "pids_are_ours", lambda: same_namespace)
    watched = Watched(nvml.environment, kernel)
    try:
        watched.sampled()
        faults_of = FaultsOf(watched.watch, Clock(), None, 0.0, frozenset())
        for number, pid in enumerate((1, OURS)):
            at = int(1e6 * time.monotonic())
            text = f"NVRM: Xid (PCI:0000:30:00): 31, pid={pid}, name=python3"
            with kernel.open("a") as log:
                log.write(f"4,{number},{at},-;{text}\n")
            until(partial(_has_lines, watched, number + 1))
        told = [hit.text for hit in faults_of({OURS}).kernel.hits]
    finally:
        watched.watch.close()
    assert [f"pid={OURS}" in one for one in told] == (
        [True] if same_namespace else [False, True]
    )


@pytest.mark.parametrize("same_namespace", [True, False])
def test_an_oom_kill_is_told_by_pids_that_can_be_compared(
    nvml: FakeNvml,
    kernel: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    same_namespace: bool,
) -> None:
    """In a container the kernel's number is another process's, whatever it is here."""
    monkeypatch.setattr(machine_monitor, "pids_are_ours", lambda: same_namespace)
    watched = Watched(nvml.environment, kernel)
    try:
        watched.sampled()
        faults_of = FaultsOf(watched.watch, Clock(), None, 0.0, frozenset())
        at = int(1e6 * time.monotonic())
        text = f"Memory cgroup out of memory: Killed process {OURS} (python3)"
        with kernel.open("a") as log:
            log.write(f"4,0,{at},-;{text}\n")
        until(partial(_has_lines, watched, 1))
        told = [hit.text for hit in faults_of({OURS}).kernel.hits]
    finally:
        watched.watch.close()
    assert told == ([text] if same_namespace else [])


def test_a_fault_under_mps_may_be_any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a client says nothing then: a fault of one may end all."""
    monkeypatch.setattr(machine_monitor, "pids_are_ours", lambda: True)
    view = GpuView(users={"GPU-x": frozenset({OURS, 1, 2})})
    names = {1: "bash", 2: "python3"}

    def name_of(pid: int) -> str:
        return names.get(pid, "?")

    monkeypatch.setattr(machine_monitor, "name_of", name_of)
    assert strangers(view, {OURS}) == {"GPU-x": {1, 2}}
    names[1] = "nvidia-cuda-mps"  # of -server, as far as the kernel keeps it
    assert strangers(view, {OURS}) == {}


def test_gpus_that_the_spec_names(observer: MachineMonitor, nvml: FakeNvml) -> None:
    """A run that was never seen on a GPU hears of those that its spec names."""
    until(observer.readings)
    faults_of = observer.devices_of([1]).faults
    nvml.xid(1, 79)
    until(lambda: observer.machine().xids.count("GPU-00000001-fake"))
    assert faults_of(set()).gpus == ("GPU-00000001-fake",)


def test_nobody_asks(nvml: FakeNvml, tmp_path: Path) -> None:
    """Without an exporter nothing is measured of the host, and nothing is shown."""
    quiet = MachineMonitor(
        places=default_places(tmp_path, tmp_path),
        gpus=None,
        environment=nvml.environment,
    )
    quiet.start()
    quiet.show([JobStatus(job="a", state=JobState.RUNNING, attempt=1)])
    until(quiet.readings)
    assert quiet.machine().spaces == {}
    assert quiet.news() == []
    quiet.close()


def test_where_gpus_are_expected(tmp_path: Path) -> None:
    """Where a spec asks for one, or a driver is loaded or has made its device."""
    none = tmp_path / "none"
    assert not gpu_expected(None, devices=tmp_path, driver=none)
    assert not gpu_expected([], devices=tmp_path, driver=none)
    assert gpu_expected([0], devices=tmp_path, driver=none)
    assert gpu_expected(None, devices=tmp_path, driver=tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert gpu_expected(None, devices=tmp_path, driver=none)


def test_a_probe_that_is_silent() -> None:
    """Before its first sample the collector of a machine with GPUs reports failure."""
    machine = machine_of(GpuView(), HostView(), now=0.0, expected=True)
    assert not machine.collectors["nvml"].success
    assert machine.gpus == ()


@pytest.mark.parametrize(
    ("readable", "kernel_log", "told"),
    [
        (True, True, True),
        (True, False, True),
        (False, True, False),
        (False, False, None),
    ],
)
def test_a_kernel_log_that_may_not_be_read(
    *, readable: bool, kernel_log: bool, told: bool | None
) -> None:
    """It is a failure of the service, or of a daemon of root: an ordinary user's run in
    the foreground may not read it, and nobody is woken for that."""
    view = GpuView(kernel_readable=readable)
    machine = machine_of(
        view, HostView(), now=0.0, expected=True, kernel_log=kernel_log
    )
    found = machine.collectors.get("kernel_log")
    assert (None if found is None else found.success) is told


def test_whose_fault_it_is(tmp_path: Path) -> None:
    """With a service that reads the kernel log, one that does not is a fault; a run alone
    tells of it only where it can read it."""
    service = MachineMonitor(places={}, gpus=[0], link=tmp_path / "probe.sock")
    assert "kernel_log" in service.machine().collectors
    alone = MachineMonitor(places={}, gpus=[0])
    readable = alone.gpus().kernel_readable
    assert ("kernel_log" in alone.machine().collectors) is readable


SERIES = re.compile(rb"^([a-z_]+)(?:\{(.*)\})? ", re.MULTILINE)


def status(attempt: int, state: JobState = JobState.RUNNING) -> JobStatus:
    """A run in its n-th attempt, with everything that grows."""
    living = state is JobState.RUNNING
    return JobStatus(
        job="digits",
        state=state,
        attempt=attempt,
        pid=OURS + attempt if living else None,
        phase="training",
        step=attempt,
        loss=1.0 / attempt,
        tiers={"durable": TierStatus(snapshots=1, age_seconds=1.0)},
        step_counts=(*(0 for _ in STEP_BUCKETS_SECONDS), attempt),
        restarts={Cause.DEVICE_OOM: attempt},
        incidents={Cause.DEVICE_OOM: attempt},
        message=f"attempt {attempt}",
    )


def test_a_thousand_attempts_leave_no_series_behind(
    observer: MachineMonitor, nvml: FakeNvml
) -> None:
    """After 1,000 attempts on changing processes a scrape has the series of one, and
    what the encoder remembers is as large; what has ended is gone."""
    board = observer.board
    assert board is not None
    until(observer.readings)
    form, seen = Form(openmetrics=True), list[set[bytes]]()
    for attempt in range(1, 1001):
        observer.show([status(attempt)])
        seen.append(_series(board.read(form)))
        if attempt % 100 == 0:
            nvml.set({"0.processes": f"{OURS + attempt}:{GIB}:4294967295"})
    assert seen[-1] == seen[1]
    assert series_remembered(board, form) <= len(seen[-1])
    observer.show([status(1000, JobState.GAVE_UP)])
    ended = _series(board.read(form))
    assert ended < seen[-1]
    assert not any(b"trainwarden_loss" in name for name in ended)
    observer.show([])
    text = board.read(form)
    assert b'run="' not in (text or b"")
    assert series_remembered(board, form) <= len(_series(text))


def _series(text: bytes | None) -> set[bytes]:
    return {match.group(0) for match in SERIES.finditer(text or b"")}
