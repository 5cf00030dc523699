"""How far training may grow in main memory, from the kernel's own files."""

import os
from pathlib import Path

import psutil

from supervisor.host.memory.main_memory import capacity, private_bytes, room
from tests.support.holding import holding


def test_the_smallest_counts(tmp_path: Path) -> None:
    """The spec's limit, the cgroup's, or what the machine has left."""
    root = tmp_path / "cgroup"
    found = capacity(os.getpid(), rss=500, limit=None, root=root)
    assert 500 < found <= 500 + psutil.virtual_memory().total
    assert capacity(os.getpid(), rss=500, limit=800, root=root) == 800


def of_cgroup(root: Path, *, rss: int, stat: str) -> int | None:
    """The capacity in a cgroup with a limit of 1000, of which 600 are charged."""
    group = root / "memory"
    group.mkdir(exist_ok=True)
    (group / "memory.usage_in_bytes").write_text("600\n")
    (group / "memory.limit_in_bytes").write_text("1000\n")
    (group / "memory.oom_control").write_text("oom_kill 0\n")
    (group / "memory.stat").write_text(stat)
    return capacity(os.getpid(), rss=rss, limit=None, root=root)


def test_others_in_the_cgroup_count_and_the_cache_does_not(tmp_path: Path) -> None:
    """300 of others, 200 of cache, and 100 of our own."""
    assert of_cgroup(tmp_path, rss=100, stat="total_cache 200\n") == 1000 - 300


def test_pages_of_libraries_do_not_fill_a_cgroup(tmp_path: Path) -> None:
    """700 are resident, of which the kernel could take 300 back: there is room for 600
    more, not for 300."""
    assert of_cgroup(tmp_path, rss=700, stat="total_cache 200\n") == 700 + 600


def test_what_lies_in_a_tmpfs_is_no_cache(tmp_path: Path) -> None:
    """Of 200 that the kernel calls cache 150 are snapshots in memory."""
    stat = "total_cache 200\ntotal_shmem 150\n"
    assert of_cgroup(tmp_path, rss=100, stat=stat) == 100 + 1000 - 600 + 50


def test_a_worker_counts_with_what_is_its_own() -> None:
    """A child that writes 64 MiB of its own holds them; one that is gone, nothing."""
    with holding(64 * 2**20) as child:
        held = private_bytes([child.pid])
    assert 64 * 2**20 <= held < 128 * 2**20
    assert private_bytes([child.pid]) == 0


def test_room_for_one_more_in_a_slice(tmp_path: Path) -> None:
    """What its limit leaves, in either version of cgroups; else what the machine has."""
    groups = "0::/some.slice\n1:memory:/some.slice\n"
    machine = psutil.virtual_memory().total
    assert 1000 < room(groups, root=tmp_path) <= machine
    for group, names in (
        (tmp_path / "some.slice", ("memory.current", "memory.max", "memory.events")),
        (
            tmp_path / "memory/some.slice",
            ("memory.usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control"),
        ),
    ):
        group.mkdir(parents=True)
        for name, text in zip(names, ("600", "1000", "oom_kill 0"), strict=True):
            (group / name).write_text(f"{text}\n")
        assert room(groups, root=tmp_path) == 400
        for name in names:
            (group / name).unlink()
