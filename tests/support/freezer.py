"""Processes that even SIGKILL does not end: frozen by a cgroup of version 1."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

FREEZER = Path("/sys/fs/cgroup/freezer")
THAW_SECONDS = 60.0


@contextmanager
def frozen(pid: int) -> Generator[Path]:
    """Hold a process in a v1 freezer: SIGKILL does not end it before it is thawed."""
    group = FREEZER / f"trainwarden-{os.getpid()}-{pid}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
    except OSError as error:
        pytest.skip(f"no freezer of cgroup v1 here: {error}")
    try:
        yield group
    finally:
        (group / "freezer.state").write_text("THAWED")
        ends = time.monotonic() + THAW_SECONDS
        while (group / "cgroup.procs").read_text() and time.monotonic() < ends:
            time.sleep(0.02)
        group.rmdir()
