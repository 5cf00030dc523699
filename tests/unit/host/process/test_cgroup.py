"""OOM kills of the kernel: both versions of cgroups, and a real kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.host.process.cgroup import event_files, oom_kills, parse_oom_kills


def test_both_formats() -> None:
    """Version 2 counts in ``memory.events``, version 1 in ``memory.oom_control``."""
    assert parse_oom_kills("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n") == 1
    assert parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3
    assert parse_oom_kills("oom_kill many\n") is None
    assert parse_oom_kills("") is None


def test_where_the_counts_are() -> None:
    """A hybrid machine has both; a container may see its cgroup as the root."""
    found = event_files("4:memory:/a/b\n0::/c\nrubbish\n3:cpu:/\n", root=Path("/r"))
    assert [str(path) for path in found] == [
        "/r/memory/a/b/memory.oom_control",
        "/r/memory/memory.oom_control",
        "/r/c/memory.events",
        "/r/memory.events",
    ]


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """Unknown is not zero."""
    assert oom_kills(root=tmp_path) is None
    assert oom_kills(2**22 + 1) is None


def test_a_real_kill_is_counted() -> None:
    """A process over the limit of a version 1 cgroup is killed, and that is seen."""
    group = Path("/sys/fs/cgroup/memory") / f"trainwarden-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(48 * 2**20))
    except OSError as error:
        pytest.skip(f"no cgroup v1 memory controller that may be written: {error}")
    try:
        hungry = (
            "import os, pathlib, sys\n"
            "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
            "print('in', flush=True); sys.stdin.readline()\n"
            "bytearray(200 * 2**20)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", hungry, str(group / "tasks")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        before = oom_kills(process.pid)
        process.communicate(b"\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
        after = parse_oom_kills((group / "memory.oom_control").read_text())
        assert (before, after) == (0, 1)
    finally:
        group.rmdir()
