"""Children that nobody watches any more."""

import gc
import os
import sys
import warnings
from pathlib import Path

import psutil

from supervisor.host.process.child_process import start, wait_for

WAITS = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
"""Until its standard input ends."""


def left_by_start(reader: int) -> tuple[int, int]:
    """The pid of a child that has not ended as it is let go, and a descriptor of it."""
    child = start(WAITS, environment={}, directory=Path("/"), stdin=reader)
    again = os.pidfd_open(child.pid)
    child.close()
    child.close()  # a second time does nothing
    return child.pid, again


def test_a_child_that_is_let_go_is_reaped_with_the_next() -> None:
    """It is no zombie for as long as a daemon lives, and Python has nothing to warn of."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pid, ended = left_by_start(reader)
        gc.collect()
    os.close(reader)
    os.close(writer)
    assert wait_for([ended], seconds=60.0)
    os.close(ended)
    assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    next_one = start(["/bin/true"], environment={}, directory=Path("/"))
    assert not psutil.pid_exists(pid)
    assert wait_for([next_one.descriptor], seconds=60.0)
    assert next_one.ended()
    next_one.close()
