"""How far training may grow in main memory, from the kernel's own files."""

import os
from pathlib import Path

from supervisor.host.main_memory import capacity, parse_available

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
