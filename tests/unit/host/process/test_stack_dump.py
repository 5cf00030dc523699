"""The stacks of a process that hangs, taken for real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.host.process import stack_dump
from supervisor.host.process.stack_dump import Stacks
from supervisor.wire.paths import AttemptPaths

PATIENCE = 60.0
HANGING = """
import faulthandler, signal, sys, threading
file = open(sys.argv[1], "ab", buffering=0)
faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)

def deadlock():
    lock = threading.Lock()
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()

deadlock()
"""


def no_spy(_pid: int) -> None:
    """As where py-spy is not installed."""


def asked(pid: int) -> bool:
    """Ask a process for its stacks; False: it is gone."""
    try:
        os.kill(pid, signal.SIGUSR1)
    except ProcessLookupError:
        return False
    return True


def taken(paths: AttemptPaths, pid: int) -> str:
    """What is told of ``pid``, in the end."""
    one = Stacks(paths, pid, now=time.monotonic(), ask=lambda: asked(pid))
    deadline = time.monotonic() + PATIENCE
    while not one.taken(now=time.monotonic()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return one.text


@pytest.mark.parametrize("spy", [True, False])
def test_a_deadlock_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, spy: bool
) -> None:
    """By faulthandler always, with native frames where py-spy is there."""
    if not spy:
        monkeypatch.setattr(stack_dump, "_spy", no_spy)
    paths = AttemptPaths(tmp_path)
    paths.fault.write_text("from before\n")
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(paths.fault)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        text = taken(paths, process.pid)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert "deadlock" in text
    assert "from before" not in text
    assert ("PyThread_acquire_lock" in text) is spy


def test_of_a_process_that_is_gone_nothing_is_told(tmp_path: Path) -> None:
    """At once, and without an error."""
    assert taken(AttemptPaths(tmp_path), 4194300) == ""
