"""Before the next attempt, nothing of the dead one is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from supervisor.core.lifecycle.events import (
    GateClear,
    GateHeld,
    GateUnknown,
    Unkillable,
)
from supervisor.core.remediation.overrides import Awaited
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.leftovers import GateState, Leftovers, room
from supervisor.host.process.marker_scan import MarkerScan
from supervisor.host.process.proc_files import doomed, slept_seconds, stat
from supervisor.host.process.process_tree import ProcessTree
from supervisor.wire.messages.directive import MARKER
from supervisor.wire.records.end_records import Shimmed
from tests.support.small_disk import fill, mounted

PATIENCE = 60.0

SLEEP = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(600)"
)
ESCAPE = """
import os, subprocess, sys, time
# A worker in a session of its own, with an environment of its own, whose parent ends.
worker = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    env={}, start_new_session=True,
)
print(worker.pid, flush=True)
time.sleep(600)
"""


def until(true: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes, ended with the test."""
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def python(
    started: list[subprocess.Popen[str]], text: str, **environment: str
) -> subprocess.Popen[str]:
    """A real process that runs ``text``."""
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    return process


def gate(
    remains: Leftovers,
    *gpus: Gpu,
    awaited: Awaited | None = None,
    disk: Path = Path("/"),
) -> GateClear | GateHeld | GateUnknown | Unkillable:
    """What the gate says as soon as it knows."""
    while True:
        found = remains.gate(
            now=time.monotonic(),
            gpus=gpus,
            visible=["GPU-a"],
            awaited=awaited,
            disk=disk,
        )
        if found != GateUnknown():
            return found


def gone(pid: int) -> bool:
    """Whether nothing of it runs any more."""
    seen = stat(pid)
    return seen is None or seen.state in "ZX"


def test_what_carries_the_marker_is_named_and_ended(
    started: list[subprocess.Popen[str]],
) -> None:
    """Asked first; a zombie does not hold the gate."""
    remains = Leftovers(run_id="test-remains-1")
    process = python(started, SLEEP, **{MARKER: "test-remains-1/1"})
    until(lambda: bool(remains.left()))
    held = gate(remains)
    assert isinstance(held, GateHeld)
    assert str(process.pid) in held.because
    until(lambda: gone(process.pid))  # a zombie: nobody has reaped it
    assert isinstance(gate(remains), GateClear)
    assert process.wait(PATIENCE) == -signal.SIGTERM


def test_a_pid_that_was_known_and_came_back(
    started: list[subprocess.Popen[str]],
) -> None:
    """As another process of the run, which carries its marker."""
    process = python(started, SLEEP, **{MARKER: "test-remains-13/1"})
    remains = Leftovers(run_id="test-remains-13", known={process.pid: 1})
    until(lambda: (remains.left() or {}).keys() == {process.pid})


def test_who_does_not_listen_is_killed(
    started: list[subprocess.Popen[str]],
) -> None:
    """SIGTERM, two seconds, SIGKILL; also where it is stopped."""
    remains = Leftovers(run_id="test-remains-2")
    process = python(started, STUBBORN, **{MARKER: "test-remains-2/1"})
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: isinstance(gate(remains), GateClear))
    assert process.wait(PATIENCE) == -signal.SIGKILL


def test_a_worker_that_scrubbed_its_environment_was_seen_before(
    started: list[subprocess.Popen[str]],
) -> None:
    """It left its session, its marker and its parent: the tree was written down."""
    remains = Leftovers(run_id="test-remains-3")
    parent = python(started, ESCAPE, **{MARKER: "test-remains-3/1"})
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    remains.follow(parent.pid, now=time.monotonic())
    assert remains.pids == {parent.pid, worker}
    parent.kill()
    parent.wait(PATIENCE)
    assert not gone(worker)
    until(lambda: (remains.left() or {}).keys() == {worker})
    until(lambda: isinstance(gate(remains), GateClear))
    until(lambda: gone(worker))


def test_who_does_not_answer_holds_the_gate_for_a_moment(tmp_path: Path) -> None:
    """Not the loop: reading the environment of a process whose mappings are locked, by a
    driver that hangs, say, takes for ever."""
    hangs = tmp_path / "4194301" / "environ"
    hangs.parent.mkdir()
    os.mkfifo(hangs)
    environments = MarkerScan(proc=tmp_path, silent_seconds=0.5)
    population = ProcessTree(environments=environments)
    remains = Leftovers(run_id="test-remains-11", population=population)
    now = time.monotonic()
    held = remains.gate(now=now, gpus=(), visible=(), awaited=None, disk=tmp_path)
    assert held == GateUnknown()
    assert isinstance(gate(remains), GateClear)
    os.close(os.open(hangs, os.O_WRONLY))  # its reader is let go


def test_training_of_an_earlier_supervisor_is_known_without_its_environment(
    started: list[subprocess.Popen[str]],
) -> None:
    """It is ended, where it began in this boot; whoever has its pid now is not."""
    training = python(started, SLEEP)
    known = stat(training.pid)
    assert known is not None
    shimmed = Shimmed(
        shim_pid=4194300,
        shim_started_ticks=1,
        pid=training.pid,
        boot_id="another boot",
        started_ticks=known.started_ticks,
    )
    remains = Leftovers(run_id="test-remains-12")
    for before in (None, shimmed):
        remains.remember(before)
        assert isinstance(gate(remains), GateClear)
    remains.remember(replace(shimmed, boot_id=boot_id()))
    held = gate(remains)
    assert isinstance(held, GateHeld)
    assert str(training.pid) in held.because
    until(lambda: gone(training.pid))


def test_who_is_not_of_the_run_is_left_alone(
    started: list[subprocess.Popen[str]],
) -> None:
    """A user may write the pid of anybody into the files of an attempt, and the marker of
    another's run into the environment of a process: neither ourselves nor a process of
    another user is signalled, or holds the gate."""
    other = python(started, SLEEP, **{MARKER: "test-remains-14/1"})
    known = {pid: there.started_ticks for pid in (os.getpid(), other.pid)
             if (there := stat(pid)) is not None}  # fmt: skip
    of_nobody = Leftovers(run_id="test-remains-14", user_id=-1, known=known)
    until(lambda: of_nobody.left() == {})
    assert isinstance(gate(of_nobody), GateClear)
    assert other.poll() is None
    own = Leftovers(run_id="test-remains-14", user_id=os.geteuid(), known=known)
    until(lambda: (own.left() or {}).keys() == {other.pid})


def test_a_pid_that_is_another_process_now_is_left_alone(
    started: list[subprocess.Popen[str]],
) -> None:
    """Pids come back; the start time tells."""
    other = python(started, SLEEP)
    remains = Leftovers(run_id="test-remains-4", known={other.pid: 1})
    until(lambda: remains.left() == {})
    assert isinstance(gate(remains), GateClear)
    assert other.poll() is None


def test_the_tree_is_looked_at_now_and_then() -> None:
    """Not twice a second: that would cost more than it tells."""
    remains = Leftovers(run_id="test-remains-5")
    remains.follow(None, now=0.0)
    assert remains.pids == frozenset()
    remains.follow(os.getpid(), now=1.0)
    assert os.getpid() in remains.pids
    remains.known.clear()
    remains.follow(os.getpid(), now=2.0)
    assert remains.pids == frozenset()


def gpu(*processes: GpuProcess) -> Gpu:
    """A GPU of 1,000 bytes."""
    return Gpu(
        uuid="GPU-a",
        index=0,
        memory=GpuMemory(total=1000, used=0, free=1000),
        processes=processes,
    )


def test_workers_that_ended_on_the_way_are_forgotten(
    started: list[subprocess.Popen[str]],
) -> None:
    """A loader may start thousands; who still is there, in whatever session, stays."""
    worker, other = python(started, SLEEP), python(started, SLEEP)
    ticks = {one.pid: stat(one.pid) for one in (worker, other)}
    known = {pid: seen.started_ticks for pid, seen in ticks.items() if seen}
    remains = Leftovers(run_id="test-remains-10", known=dict(known))
    worker.kill()
    worker.communicate(timeout=PATIENCE)
    remains.follow(os.getpid(), now=1000.0)
    assert worker.pid not in remains.pids
    assert {os.getpid(), other.pid} <= remains.pids


def test_gpu_memory_of_a_dead_attempt_holds_the_gate() -> None:
    """The driver may give it back later than the process is gone."""
    remains = Leftovers(run_id="test-remains-6", known={4194300: 1})
    held = gate(remains, gpu(GpuProcess(pid=4194300, name="python", bytes=600)))
    assert isinstance(held, GateHeld)
    assert "600 bytes of GPU-a" in held.because
    assert "4194300 (python)" in held.because
    held = gate(remains, gpu(GpuProcess(pid=4194300, name="python", bytes=None)))
    assert isinstance(held, GateHeld)
    assert isinstance(
        gate(remains, gpu(GpuProcess(pid=5, name="other", bytes=600))), GateClear
    )


def test_a_tenant_holds_the_gate_only_where_that_is_awaited() -> None:
    """Otherwise it is none of the gate's business."""
    remains = Leftovers(run_id="test-remains-7")
    busy = gpu(GpuProcess(pid=5, name="blender", bytes=600))
    assert isinstance(gate(remains, busy), GateClear)
    held = gate(remains, busy, awaited=Awaited(tenants_gone=True))
    assert isinstance(held, GateHeld)
    assert "5 (blender)" in held.because
    assert isinstance(gate(remains, awaited=Awaited(tenants_gone=True)), GateClear)


def test_room_is_awaited_and_made(tmp_path: Path) -> None:
    """What is kept only for a look goes first; snapshots never."""
    for name in ("abandoned", "quarantine", "000000000010-000001"):
        (tmp_path / name).mkdir()
    remains = Leftovers(run_id="test-remains-8")
    held = gate(remains, awaited=Awaited(room_bytes=1 << 60), disk=tmp_path)
    assert isinstance(held, GateHeld)
    assert "are needed" in held.because
    assert [path.name for path in tmp_path.iterdir()] == ["000000000010-000001"]
    enough = gate(remains, awaited=Awaited(room_bytes=1), disk=tmp_path)
    assert isinstance(enough, GateClear)
    assert room(tmp_path / "missing", wanted=1) == 0


def test_another_disk_is_awaited(tmp_path: Path) -> None:
    """One that is mounted here and of this machine; what else is named is not looked at."""
    remains = Leftovers(run_id="test-remains-9")

    def waits(place: str, needed: int) -> GateState:
        awaited = Awaited(room_bytes=1, disk=place, disk_bytes=needed)
        return gate(remains, awaited=awaited, disk=tmp_path)

    with mounted(tmp_path / "a disk", "8m") as disk:
        fill(disk / "hog")
        held = waits(str(disk), 1 << 20)
        assert isinstance(held, GateHeld)
        assert held.because.endswith(
            f"are free on the disk mounted at {disk}, 1 MiB are needed"
        )
        (disk / "hog").unlink()
        assert isinstance(waits(str(disk), 1 << 20), GateClear)
    assert isinstance(waits(str(disk), 1 << 60), GateClear)
    assert isinstance(waits("/proc", 1 << 60), GateClear)


def test_a_process_that_is_gone_is_nothing() -> None:
    """Whatever disappears while it is looked at is no error."""
    assert ProcessTree().families({4194300: None}, now=0.0) == {}
    assert stat(4194300) is None
    assert not doomed(4194300)
    assert not doomed(os.getpid())
    assert slept_seconds() >= -1.0


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def frozen() -> Iterator[Callable[[int], None]]:
    """Freezes a process in a v1 freezer cgroup: a real D state."""
    group = FREEZER / f"trainwarden-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no v1 freezer cgroup can be made here")

    def freeze(pid: int) -> None:
        (group / "tasks").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")

    yield freeze
    (group / "freezer.state").write_text("THAWED")
    until(lambda: not (group / "tasks").read_text().strip())
    group.rmdir()


def test_what_cannot_die_is_told_once_and_then_let_be(
    started: list[subprocess.Popen[str]], frozen: Callable[[int], None]
) -> None:
    """Frozen it is in D state: SIGKILL waits, and it runs no line of its program any
    more. Its GPU is named, and the gate is clear for another one."""
    remains = Leftovers(run_id="test-remains-9")
    process = python(started, SLEEP, **{MARKER: "test-remains-9/1"})
    until(lambda: bool(remains.left()))
    remains.known[process.pid] = stat(process.pid).started_ticks  # type: ignore[union-attr]  # it lives
    frozen(process.pid)
    busy = gpu(GpuProcess(pid=process.pid, name="python", bytes=600))
    said: list[object] = []

    def clear() -> bool:
        said.append(gate(remains, busy))
        return isinstance(said[-1], GateClear)

    until(clear)
    told = [one for one in said if isinstance(one, Unkillable)]
    assert told == [Unkillable((process.pid,), ("GPU-a",))]
    assert doomed(process.pid)
