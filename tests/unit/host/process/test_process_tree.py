"""Who came of whom: real processes."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from supervisor.host.process.proc_files import stat
from supervisor.host.process.process_tree import (
    FRESH_SECONDS,
    PARTS,
    STALE_SECONDS,
    ProcessTree,
)

FAMILY = """
import os, subprocess, sys, threading
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
BETWEEN = (
    f"import subprocess, sys; print(subprocess.Popen({SLEEP}).pid, flush=True);"
    "sys.stdin.read()"
)
# A thread has the child, and that a child of its own.
def start():
    global child
    child = subprocess.Popen(
        [sys.executable, "-c", BETWEEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )
    print(child.pid, child.stdout.readline().strip(), flush=True)
    threading.Event().wait()
threading.Thread(target=start, daemon=True).start()
input()
child.stdin.close()
child.wait()
print("ended", flush=True)
input()
"""
ZOMBIE = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
ORPHAN = (
    "import subprocess, sys; sys.stdin.readline();"
    "late = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print(late.pid, flush=True); late.wait()"
)
BETWEEN = (
    "import os, subprocess, sys;"
    f"one = subprocess.Popen([sys.executable, '-c', {ORPHAN!r}], stdin=int(sys.argv[1]));"
    "print(os.getpid(), one.pid, flush=True); sys.stdin.readline(); os._exit(0)"
)
reader, writer = os.pipe()
between = subprocess.Popen(
    [sys.executable, "-c", BETWEEN, str(reader)], stdin=subprocess.PIPE, pass_fds=[reader]
)
sys.stdin.readline()
between.stdin.close()  # it ends, and is not waited for
os.waitid(os.P_PID, between.pid, os.WEXITED | os.WNOWAIT)
os.write(writer, b"\\n")
sys.stdin.read()
"""


@dataclass(frozen=True)
class ForkedFamily:
    """A process, a child of one of its threads, and a child of that."""

    process: subprocess.Popen[str]
    child: int
    grandchild: int

    @property
    def pid(self) -> int:
        """Of the oldest."""
        return self.process.pid

    def lose_the_child(self) -> None:
        """It ends, and is waited for."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ended\n"


@pytest.fixture
def family() -> Iterator[ForkedFamily]:
    """Ended with the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", FAMILY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child, grandchild = map(int, process.stdout.readline().split())
    yield ForkedFamily(process, child, grandchild)
    os.kill(grandchild, 9)
    process.kill()
    process.communicate()


def ticks(pid: int) -> int:
    """When it started."""
    seen = stat(pid)
    assert seen is not None
    return seen.started_ticks


def test_a_family(family: ForkedFamily) -> None:
    """All that came of a process, whichever thread started it."""
    found = ProcessTree().families({family.pid: None}, now=0.0)
    assert set(found) == {family.pid, family.child, family.grandchild}
    assert found[family.grandchild].parent == family.child
    assert found[family.child].started_ticks == ticks(family.child)


def test_what_is_new_is_seen_a_moment_later(family: ForkedFamily) -> None:
    """Who is there is asked once for all that ask at the same time."""
    population = ProcessTree()
    alone = {os.getpid(): None}
    known = population.families(alone, now=0.0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as new:
        now = FRESH_SECONDS / 2
        assert population.families(alone, now=now).keys() == known.keys()
        found = population.families(alone, now=FRESH_SECONDS).keys()
        assert {new.pid, family.grandchild} <= found
    later = population.families(alone, now=2 * FRESH_SECONDS).keys()
    assert new.pid not in later


def test_a_moment_in_which_nobody_can_be_counted(
    family: ForkedFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the limit of open files: who was known is known, and it passes by."""

    def too_many(_path: object) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    population, alone = ProcessTree(), {os.getpid(): None}
    known = population.families(alone, now=0.0).keys()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as new:
        later = 2 * FRESH_SECONDS
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", too_many)
            assert population.families(alone, now=later).keys() == known
        assert {new.pid, family.grandchild} <= population.families(
            alone, now=later
        ).keys()


def test_whose_parent_ended(family: ForkedFamily) -> None:
    """It is somebody else's child, and must be asked for."""
    population = ProcessTree()
    population.families({}, now=0.0)
    family.lose_the_child()
    roots: dict[int, int | None] = {family.pid: None}
    for now in (0.0, FRESH_SECONDS):
        assert set(population.families(roots, now=now)) == {family.pid}
    roots[family.grandchild] = None
    assert set(population.families(roots, now=9.0)) == {family.pid, family.grandchild}


def test_whose_parent_ended_is_found_with_its_next(family: ForkedFamily) -> None:
    """Who was known as a child of one that ended is asked again."""
    population = ProcessTree()
    population.families({}, now=0.0)
    family.lose_the_child()
    orphan = stat(family.grandchild)
    assert orphan is not None
    heirs = population.families({orphan.parent: None}, now=FRESH_SECONDS)
    assert family.grandchild in heirs


def test_an_orphan_of_a_zombie_stays_in_the_family() -> None:
    """Its parent has ended and nobody has waited for that; the subreaper has it, as a
    shim is one (prctl(2)), and what it starts later is found as well."""
    with subprocess.Popen(
        [sys.executable, "-c", ZOMBIE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        parent, orphan = map(int, shim.stdout.readline().split())
        ended_with_us = [orphan]
        try:
            population, shims = ProcessTree(), {shim.pid: None}
            assert {parent, orphan} <= population.families(shims, now=0.0).keys()
            shim.stdin.write("\n")
            shim.stdin.flush()
            late = int(shim.stdout.readline())
            ended_with_us.append(late)
            for now in (FRESH_SECONDS, 2 * FRESH_SECONDS):
                found = population.families(shims, now=now)
                assert found[parent].state == "Z"
                assert {orphan, late} <= found.keys()
        finally:
            for pid in ended_with_us:
                os.kill(pid, signal.SIGKILL)
            shim.stdin.close()


def test_what_is_known_is_asked_again(family: ForkedFamily) -> None:
    """A pid may be another process since: one part at each count, all after a while."""
    for seconds, counts in ((FRESH_SECONDS, PARTS), (STALE_SECONDS, 1)):
        population = ProcessTree(
            _parents={family.pid: 1, family.child: 1, 1: 0}, _counted_at=0.0
        )
        roots = {family.pid: None}
        assert set(population.families(roots, now=0.0)) == {family.pid}
        whole = {family.pid, family.child, family.grandchild}
        times = [(count + 1) * seconds for count in range(counts)]
        assert set([population.families(roots, now=now) for now in times][-1]) == whole


def test_pids_come_back(family: ForkedFamily) -> None:
    """One that is another process now is nobody's: neither a root that started at
    another time nor a child that says that it is another's."""
    population = ProcessTree()
    started = ticks(family.pid)
    assert population.families({family.pid: started + 1}, now=0.0) == {}
    assert family.child in population.families({family.pid: started}, now=0.0)
    mistaken = ProcessTree(
        _parents={os.getpid(): 1},
        _children={os.getpid(): [family.child]},
        _counted_at=0.0,
    )
    assert set(mistaken.families({os.getpid(): None}, now=0.0)) == {os.getpid()}
