"""How far training may grow in main memory, from the kernel's own files."""

import os
from pathlib import Path

from supervisor.host.main_memory import (
    capacity,
    parse_available,
    parse_private,
    private_bytes,
)
from tests.support.holding import holding

MEMINFO = "MemTotal:       24103 kB\nMemAvailable:   1000 kB\nBuffers: 1 kB\n"


def test_available() -> None:
    """The kernel's own estimate, in bytes; None for another text."""
    assert parse_available(MEMINFO) == 1000 * 1024
    assert parse_available("MemAvailable: many kB") is None
    assert parse_available("") is None


def test_the_smallest_counts(tmp_path: Path) -> None:
    """The spec's limit, the cgroup's, or what the machine has left."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(MEMINFO)
    root = tmp_path / "cgroup"
    found = capacity(os.getpid(), rss=500, limit=None, root=root, meminfo=meminfo)
    assert found == 500 + 1000 * 1024
    limited = capacity(os.getpid(), rss=500, limit=800, root=root, meminfo=meminfo)
    assert limited == 800
    nothing = capacity(os.getpid(), rss=5, limit=None, root=root, meminfo=tmp_path)
    assert nothing is None


def test_others_in_the_cgroup_count_and_the_cache_does_not(tmp_path: Path) -> None:
    """A limit of 1000: 300 of others, 200 of cache, and 100 of our own."""
    group = tmp_path / "memory"
    group.mkdir()
    (group / "memory.usage_in_bytes").write_text("600\n")
    (group / "memory.limit_in_bytes").write_text("1000\n")
    (group / "memory.oom_control").write_text("oom_kill 0\n")
    (group / "memory.stat").write_text("total_cache 200\n")
    found = capacity(
        os.getpid(), rss=100, limit=None, root=tmp_path, meminfo=tmp_path / "none"
    )
    assert found == 1000 - 300


ROLLUP = """\
5580-7ffd ---p 00000000 00:00 0    [rollup]
Rss:               24000 kB
Private_Clean:       100 kB
Private_Dirty:      2000 kB
"""


def test_what_is_private() -> None:
    """Clean and dirty pages that nobody shares; nothing where nothing is told."""
    assert parse_private(ROLLUP) == 2100 * 1024
    assert parse_private("") == 0


def test_a_worker_counts_with_what_is_its_own() -> None:
    """A child that writes 64 MiB of its own holds them; one that is gone, nothing."""
    with holding(64 * 2**20) as child:
        held = private_bytes([child.pid])
    assert 64 * 2**20 <= held < 128 * 2**20
    assert private_bytes([child.pid]) == 0
