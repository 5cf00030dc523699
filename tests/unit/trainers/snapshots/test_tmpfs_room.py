"""Where the memory tier may be, and what happens where there is no room for it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.wire.files import read_json
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from tests.support.snapshot_tiers import open_run
from trainers.snapshots.memory_store import MemoryTier, NoMemoryTierError
from trainers.snapshots.tmpfs_room import TmpfsRoom, is_tmpfs


def test_too_small_a_tmpfs_is_told_once(tmp_path: Path, tmpfs: Path) -> None:
    """One sentence with the sizes; every snapshot goes to disk from then on."""
    room = TmpfsRoom(300_000, "the tmpfs /dev/shm")
    run = open_run(tmp_path, tmpfs, room)
    run.save(1, size=50_000)
    run.save(2, size=50_000)
    (sentence,) = run.refused
    assert sentence == (
        "snapshots go to disk only, none is kept in memory: two snapshots need"
        " 0.4 MiB and the tmpfs /dev/shm leaves 0.3 MiB for them"
    )
    assert [saved.tier for saved in run.told] == [DURABLE, DURABLE]
    assert [entry.step for entry in run.store.entries()] == [2, 1]
    assert not run.memory.directory.exists()


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A real tmpfs of 256 KiB."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("a file system can be mounted by root alone")
    yield place
    leave = ["umount", "--lazy", str(place)]  # what was mapped is still mapped
    subprocess.run(leave, check=True)


def test_tmpfs_that_fills_up_ends_the_tier_and_not_the_training(
    tmp_path: Path, tiny: Path
) -> None:
    """Two small ones fit; the state grows, or others take the room: no SIGBUS, one
    sentence, and the disk has every snapshot from then on."""
    run = open_run(tmp_path, tiny)
    run.save(1)
    run.save(2)
    assert run.in_memory() == [2, 1]
    run.save(3, size=100_000)
    assert len(run.refused) == 1
    assert f"the tmpfs {tiny} leaves" in run.refused[0]
    assert [entry.step for entry in run.store.entries()] == [3]
    run.store.close()
    again = open_run(tmp_path, tiny, TmpfsRoom(10**9, "a wrong answer"))
    again.save(4, size=60_000)
    assert len(again.refused) == 1
    assert "No space left" in again.refused[0]
    assert again.in_memory() == [4]  # it stays until the disk has a newer one
    again.save(5, size=60_000)
    assert again.store.entries()[0].step == 5
    assert not again.memory.directory.exists()


def test_snapshot_that_cannot_be_named_in_memory_goes_to_disk(
    tmp_path: Path, tiny: Path
) -> None:
    """Its tensors fit, the manifest beside them does not: it is not lost."""
    run = open_run(tmp_path, tiny, TmpfsRoom(10**9, "a wrong answer"))
    run.save(1, size=64_200)  # 63 pages; that of the owner is the last of the 64
    assert [saved.tier for saved in run.told] == [MEMORY, DURABLE]
    assert run.told[0].error is not None
    assert run.store.entries()[0].step == 1
    assert len(run.refused) == 1


def test_memory_tier_is_its_owners_alone(tmp_path: Path, tmpfs: Path) -> None:
    """0700, and neither a link nor a directory that others may enter is used."""
    run = open_run(tmp_path, tmpfs)
    assert run.memory.directory.stat().st_mode & 0o777 == 0o700
    owner = read_json(run.memory.directory / "owner.json")
    assert owner == {"snapshots": str(run.store.directory)}
    (tmpfs / "elsewhere").mkdir(mode=0o700)
    (tmpfs / "link").symlink_to(tmpfs / "elsewhere")
    (tmpfs / "open").mkdir()
    (tmpfs / "open").chmod(0o755)
    for name in ("link", "open", "missing/run"):
        with pytest.raises(NoMemoryTierError, match="disk only"):
            MemoryTier(tmpfs / name, job="job", durable=run.store.directory)
    assert list((tmpfs / "elsewhere").iterdir()) == []


def test_a_disk_is_no_memory(tmp_path: Path) -> None:
    """A directory that is no tmpfs is refused: it would be written to a disk."""
    if is_tmpfs(tmp_path):
        pytest.skip("the temporary directory is a tmpfs")
    with pytest.raises(NoMemoryTierError, match="is no tmpfs"):
        MemoryTier(tmp_path / "run", job="job", durable=tmp_path)
