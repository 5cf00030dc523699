"""What training uses of the host: real processes, real cgroups, real file systems."""

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from supervisor.core.metrics.machine_state import CgroupMemory, TreeUse
from supervisor.host.exporter.host_collector import HostCollector, HostView, read_space
from supervisor.host.process.cgroup import read_memory
from supervisor.host.process.proc_files import parse_stat
from supervisor.host.process.usage import (
    PROPORTIONAL_SECONDS,
    Proportional,
    UsageReader,
)

DEADLINE_SECONDS = 60.0
FAMILY = (
    "import subprocess, sys, threading, time\n"
    "held = bytearray(64 * 2**20)\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    "idle = 'import time; print(flush=True); time.sleep(600)'\n"
    "child = subprocess.Popen([sys.executable, '-c', idle], stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "line = sys.stdin.readline()\n"
    "child.kill(); child.wait()\n"
    "print('alone', flush=True)\n"
    "sys.stdin.read()\n"
)
HUNGRY = (
    "import sys; sys.stdin.read(1); held = bytearray(2**26);"
    "print(flush=True); sys.stdin.read()"
)
V1 = Path("/sys/fs/cgroup/memory")


class Family:
    """A process with a thread and a child."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FAMILY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.pid = self.process.pid
        self.child = int(self.stdout.readline())

    def lose_its_child(self) -> None:
        """Its child ends, and is waited for."""
        self.stdin.write("\n")
        self.stdin.flush()
        assert self.stdout.readline() == "alone\n"


@pytest.fixture
def family() -> Iterator[Family]:
    """A process with a thread and a child; both end with the test."""
    made = Family()
    try:
        yield made
    finally:
        for child in psutil.Process(made.pid).children():
            child.kill()
        made.process.kill()
        made.process.communicate()


def use_of(trees: UsageReader, pid: int, *, now: float = 0.0) -> TreeUse:
    """What the tree below ``pid`` uses."""
    return trees.look({"digits": pid}, now=now)["digits"]


def test_a_family(family: Family) -> None:
    """Memory, threads and files of a process and its child are added up."""
    trees = UsageReader()
    use = use_of(trees, family.pid)
    both = [psutil.Process(pid) for pid in (family.pid, family.child)]
    assert use.processes == 2
    assert use.threads == 3
    assert use.descriptors == sum(process.num_fds() for process in both)
    assert use.resident_bytes == pytest.approx(
        sum(process.memory_info().rss for process in both), rel=0.05
    )
    assert use.resident_bytes > 64 * 2**20
    assert use.proportional_bytes is not None
    assert 64 * 2**20 < use.proportional_bytes <= use.resident_bytes
    assert trees.owners() == {family.pid: "digits", family.child: "digits"}


def test_a_child_that_ends(family: Family) -> None:
    """It is no longer counted, and processor time does not go back."""
    trees = UsageReader()
    before = use_of(trees, family.pid)
    family.lose_its_child()
    after = use_of(trees, family.pid)
    assert (after.processes, after.threads) == (1, 2)
    assert after.cpu_seconds >= before.cpu_seconds
    assert trees.owners() == {family.pid: "digits"}


def test_processor_time_is_that_of_the_attempt(family: Family) -> None:
    """A new attempt begins at 0, and whoever begins to watch one amid it is told the same
    as who watched it and others before: a daemon that takes it up counts none twice."""
    trees = UsageReader()
    first = use_of(trees, family.pid).cpu_seconds
    other = Family()
    try:
        own = use_of(UsageReader(), other.pid).cpu_seconds
        second = use_of(trees, other.pid).cpu_seconds
        later = use_of(UsageReader(), other.pid).cpu_seconds
        assert min(first, own) > 0
        assert own <= second <= later < own + first
        assert trees.owners() == {other.pid: "digits", other.child: "digits"}
    finally:
        psutil.Process(other.child).kill()
        other.process.kill()
        other.process.communicate()


def test_proportional_memory_is_measured_seldom(family: Family) -> None:
    """The kernel walks every page for it: between two looks the last figure stands."""
    trees = UsageReader()
    first = use_of(trees, family.pid, now=0.0).proportional_bytes
    family.lose_its_child()
    assert use_of(trees, family.pid, now=1.0).proportional_bytes == first
    due = 1e6 + PROPORTIONAL_SECONDS
    assert use_of(trees, family.pid, now=due).proportional_bytes != first


@pytest.mark.parametrize(
    ("resident_bytes", "now", "due"),
    [
        (1000, 160.0, False),
        (1049, 160.0, False),
        (1051, 160.0, True),
        (949, 160.0, True),
        (5000, 149.0, False),
        (1000, 699.0, False),
        (1000, 700.0, True),
    ],
)
def test_when_proportional_memory_is_due(
    *, resident_bytes: int, now: float, due: bool
) -> None:
    """Where resident memory has changed, not too soon; in any case in the end."""
    last = Proportional(size_bytes=900, resident_bytes=1000, at=100.0, next_at=150.0)
    assert last.is_due(resident_bytes=resident_bytes, now=now) is due
    failed = replace(last, size_bytes=None)
    assert failed.is_due(resident_bytes=1000, now=now) is (now >= 150.0)


def test_what_ended_is_not_there(family: Family) -> None:
    """A process that is gone, and a run without one, use nothing."""
    trees = UsageReader()
    use_of(trees, family.pid)
    assert trees.look({}, now=0.0) == {}
    assert trees.owners() == {}
    assert trees.look({"digits": 2**22 + 1}, now=0.0) == {}
    trees.forget({})
    assert trees.look({}, now=0.0) == {}


@pytest.mark.parametrize("text", ["", "1 (a) S 1", "1 (a) S x" + " 0" * 40])
def test_a_stat_that_is_none(text: str) -> None:
    """A file that was cut off, or is none, says nothing."""
    assert parse_stat(text) is None


def test_names_may_hold_anything() -> None:
    """The fields begin after the last bracket."""
    text = (
        "7 (a) R 1 (b)) S 42 0 0 0 0 0 0 0 0 0 100 50 7 3 0 0 9 0 1234 0 10" + " 0" * 30
    )
    stat = parse_stat(text)
    assert stat is not None
    assert (stat.parent, stat.threads, stat.started_ticks) == (42, 9, 1234)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (stat.cpu_seconds, stat.ended_cpu_seconds) == (150 / ticks, 10 / ticks)


def test_version_2(tmp_path: Path) -> None:
    """Use, limit, refusals and kills of a v2 group; ``max`` is no limit."""
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    events = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n"
    (tmp_path / "memory.events").write_text(events)
    expected = CgroupMemory(used_bytes=1000, limit_bytes=None, oom_kills=1, refusals=7)
    assert read_memory(os.getpid(), root=tmp_path) == expected
    (tmp_path / "memory.max").write_text("4096\n")
    found = read_memory(os.getpid(), root=tmp_path)
    assert found is not None
    assert found.limit_bytes == 4096


def test_no_memory_cgroup(tmp_path: Path) -> None:
    """Without a group, or a process, nothing is known."""
    assert read_memory(os.getpid(), root=tmp_path) is None
    assert read_memory(2**22 + 1) is None


@pytest.fixture
def group() -> Iterator[Path]:
    """A real memory cgroup, version 1, with a limit."""
    path = V1 / f"trainwarden-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(256 * 2**20))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield path
    path.rmdir()


def test_version_1_for_real(group: Path) -> None:
    """What the kernel charges to a real group is what is told."""
    with subprocess.Popen(
        [sys.executable, "-c", HUNGRY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        (group / "cgroup.procs").write_text(str(process.pid))
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.readline()
        found = read_memory(process.pid)
        process.kill()
    assert found is not None
    assert found.limit_bytes == 256 * 2**20
    assert found.used_bytes is not None
    assert 2**26 <= found.used_bytes < 256 * 2**20
    assert (found.oom_kills, found.refusals) == (0, 0)


def test_space(tmp_path: Path) -> None:
    """Size and room of a file system; one that cannot be asked is left out."""
    space, told = read_space(tmp_path), shutil.disk_usage(tmp_path)
    assert space is not None
    assert space.size == told.total
    assert space.free == pytest.approx(told.free, rel=0.05)
    assert read_space(tmp_path / "none") is None


def until(ask: Callable[[], bool]) -> None:
    """Wait until it is so."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not ask():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_new_process_is_looked_at_at_once(family: Family, tmp_path: Path) -> None:
    """Between two rounds a training process that just started is not waited for."""
    watch = HostCollector({"state": tmp_path}, interval_seconds=3600.0)
    watch.start()
    until(lambda: watch.latest().taken is not None)
    watch.watch({"digits": family.pid, "waiting": None})
    until(lambda: "digits" in watch.latest().trees)
    assert set(watch.latest().spaces) == {"state"}
    watch.close()


def test_a_round_that_hangs() -> None:
    """What was measured long ago is a failure of the collector, and so is nothing."""
    view = HostView(taken=100.0, seconds=0.1)
    assert view.collector(now=101.0).success
    assert not view.collector(now=200.0).success
    assert not HostView().collector(now=0.0).success


def test_a_moment_in_which_nothing_can_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was measured grows old, and the next round comes."""
    problems = [OSError(errno.EMFILE, "Too many open files")] * 3
    measure = HostCollector.measure

    def now_and_then(watch: HostCollector) -> HostView:
        if problems:
            raise problems.pop()
        return measure(watch)

    monkeypatch.setattr(HostCollector, "measure", now_and_then)
    watch = HostCollector({}, interval_seconds=0.01)
    watch.start()
    ends = time.monotonic() + 60.0
    while watch.latest().taken is None:
        assert time.monotonic() < ends
        time.sleep(0.01)
    watch.close()
    assert problems == []
