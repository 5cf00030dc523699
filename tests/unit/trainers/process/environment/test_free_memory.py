"""How much main memory is free, by the kernel's own files."""

from pathlib import Path

from trainers.process.environment.free_memory import (
    cgroup_memory,
    free_memory,
    parse_cached,
    parse_meminfo,
)


def test_limits_are_read_as_the_kernel_writes_them() -> None:
    """/proc/meminfo in KiB; the page cache of cgroups v1 (with those below) and v2."""
    assert parse_meminfo("MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 3 kB\n") == (
        8192,
        3072,
    )
    assert parse_meminfo("MemTotal: 8 kB\n") is None
    assert parse_cached("anon 5\ninactive_file 7\nactive_file 2\n") == 9
    v1 = "active_file 1\ninactive_file 1\ntotal_inactive_file 7\ntotal_active_file 2\n"
    assert parse_cached(v1) == 9


def test_each_limit_of_the_cgroup_counts(tmp_path: Path) -> None:
    """Those above it, too; a tenth is left to others, the page cache is free."""
    group = tmp_path / "job" / "attempt"
    group.mkdir(parents=True)
    for place, most, used in ((group, "max", "100"), (group.parent, "1000", "600")):
        (place / "memory.max").write_text(f"{most}\n")
        (place / "memory.current").write_text(f"{used}\n")
        (place / "memory.stat").write_text("active_file 150\n")
    (found,) = cgroup_memory(tmp_path, "0::/job/attempt\n")
    assert found.nbytes == 900 - 600 + 150
    assert "cgroup job" in found.limit


def test_this_machine_tells(tmp_path: Path) -> None:
    """Of itself at least; where there is nothing to read, nothing is told."""
    assert free_memory()[0].limit == "the machine's memory"
    assert cgroup_memory(tmp_path, "") == []
