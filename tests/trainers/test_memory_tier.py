"""The memory tier: two slots in a tmpfs that survive the process, whole or nameless."""

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from supervisor.wire.files import read_json
from supervisor.wire.manifest import DURABLE, FORMAT, MANIFEST, MEMORY, TENSORS
from supervisor.wire.manifest import Manifest as TheManifest
from trainers import resume, saver, tensors
from trainers.parallel_copy import Pair, copy_all
from trainers.saver import Saved, Saver
from trainers.snapshot import Entry, Store
from trainers.snapshot_memory import MemoryTier, NoMemoryTierError, Slot
from trainers.snapshot_room import Room, is_tmpfs, parse_cached, parse_meminfo
from trainers.tensors import Tensor

SHM = Path("/dev/shm")  # noqa: S108  # the real one: that is the point


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A directory in a real tmpfs."""
    if not SHM.is_dir() or not is_tmpfs(SHM):
        pytest.skip("there is no tmpfs at /dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="trainwarden-test-", dir=SHM))
    yield directory
    shutil.rmtree(directory)


def manifest(step: int, serial: int, *, fit_done: bool = False) -> TheManifest:
    """What is said of a snapshot at ``step``."""
    return TheManifest(
        format=FORMAT, job="job", attempt=1, serial=serial, step=step, fit=0,
        fit_done=fit_done, epoch=0, step_in_epoch=step, batch=8, samples=8 * step,
        slices=1, tensors_bytes=0, tensors_hash="", wall_time=1.0, state={},
    )  # fmt: skip


def content(value: float, size: int = 5000) -> list[Tensor]:
    """Two tensors that hold ``value``."""
    return [
        tensors.of_array("a", np.full(size, value, np.float32)),
        tensors.of_array("b", np.array(int(value), np.int64)),
    ]


@dataclass
class Run:
    """Both tiers of a run, and the saver over them."""

    directory: Path
    store: Store
    memory: MemoryTier
    saver: Saver
    told: list[Saved]
    refused: list[str] = field(default_factory=list[str])

    def save(self, step: int, *, durable: bool = False, size: int = 5000) -> None:
        """A snapshot whose values are its step."""
        self.saver.save(
            content(step, size), manifest(step, step), began=0.0, durable=durable
        )
        self.saver.wait()

    def in_memory(self) -> list[int]:
        """Steps of the whole snapshots in memory, the youngest first."""
        return [entry.step for entry in self.memory.entries()]


def open_run(directory: Path, tmpfs: Path, room: Room | None = None) -> Run:
    """The run's tiers as a new process finds them."""
    store = Store(directory / "snapshots", job="job", kept=2)
    options = {} if room is None else {"room": lambda _: room}
    memory = MemoryTier(tmpfs / "run", job="job", durable=store.directory, **options)
    told: list[Saved] = []
    refused: list[str] = []
    saver = Saver(
        store, told.append, memory=memory, refused=lambda e: refused.append(str(e))
    )
    return Run(directory, store, memory, saver, told, refused)


@pytest.fixture
def run(tmp_path: Path, tmpfs: Path) -> Iterator[Run]:
    """A run with both tiers."""
    opened = open_run(tmp_path, tmpfs)
    with closing(opened.store):
        yield opened


def values(run: Run, entry: Entry) -> float:
    """What the tensors of a snapshot hold; verified."""
    taken = run.memory.load(entry) if entry.tier == MEMORY else run.store.load(entry)
    return float(taken.tensors["a"][-1])


def test_lasting_values_are_copied_aside_and_let_go_of(run: Run) -> None:
    """The snapshot is whole with them, in both tiers; their memory is free again."""
    held: list[weakref.ref[np.ndarray]] = []

    def read(_sources: Sequence[object]) -> list[np.ndarray]:
        array = np.full(5000, 7, np.float32)
        held.append(weakref.ref(array))
        return [array]

    tensor = Tensor("a", "float32", (5000,), None, read, lasting=True)
    run.saver.save([tensor], manifest(1, 1), began=0.0, durable=True)
    run.saver.wait()
    assert [one.tier for one in run.told] == [MEMORY, DURABLE]
    assert [values(run, one.entry) for one in run.told if one.entry] == [7.0, 7.0]
    assert held[0]() is None


def test_nothing_is_held_where_an_allocator_has_a_limit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot must not be what fills it: what was read is free when training goes on."""
    held: list[weakref.ref[np.ndarray]] = []
    saving = threading.Event()

    def read(_sources: Sequence[object]) -> list[np.ndarray]:
        array = np.full(5000, 7, np.float32)
        held.append(weakref.ref(array))
        return [array]

    def copy_later(pairs: Sequence[Pair], *, most_threads: int = 1) -> None:
        aside = threading.current_thread() is not threading.main_thread()
        assert not aside or saving.wait(60)
        copy_all(pairs, most_threads=most_threads)

    run.saver.beside = False
    tensor = Tensor("a", "float32", (5000,), None, read, lasting=True)
    monkeypatch.setattr(saver, "copy_all", copy_later)
    run.saver.save([tensor], manifest(1, 1), began=0.0, durable=True)
    assert held[0]() is None
    saving.set()
    run.saver.wait()
    assert [values(run, one.entry) for one in run.told if one.entry] == [7.0, 7.0]


def test_no_memory_to_copy_into_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is found out beside training, that goes on; so does the next snapshot."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    run.saver.memory = None
    with monkeypatch.context() as patched:
        patched.setattr(saver, "Image", full)
        run.save(1)
    assert [(one.entry, one.tier, one.nbytes) for one in run.told] == [
        (None, DURABLE, 0)
    ]
    assert run.told[0].error is not None
    run.save(2)
    assert [entry.step for entry in run.store.entries()] == [2]


def test_two_slots_in_turn(run: Run) -> None:
    """Memory holds the two newest; its files are the same all the time."""
    for step in (1, 2):
        run.save(step)
    files = {path.stat().st_ino for path in run.memory.directory.glob(f"*/{TENSORS}")}
    for step in (3, 4, 5):
        run.save(step)
    assert run.in_memory() == [5, 4]
    assert [values(run, entry) for entry in run.memory.entries()] == [5.0, 4.0]
    again = {path.stat().st_ino for path in run.memory.directory.glob(f"*/{TENSORS}")}
    assert again == files
    assert [(saved.tier, saved.error) for saved in run.told] == [(MEMORY, None)] * 5


def test_durable_one_is_made_from_the_slot(run: Run) -> None:
    """Both tiers hold the same bytes under the same name."""
    run.save(3, durable=True)
    inside, outside = run.memory.entries()[0], run.store.entries()[0]
    assert inside.name == outside.name
    for name in (MANIFEST, TENSORS):
        assert (inside.path / name).read_bytes() == (outside.path / name).read_bytes()
    assert [saved.tier for saved in run.told] == [MEMORY, DURABLE]


def test_memory_is_all_there_before_it_is_written(run: Run) -> None:
    """No hole in a slot: a full tmpfs must not be a SIGBUS in training."""
    run.save(1)
    found = (run.memory.entries()[0].path / TENSORS).stat()
    assert found.st_blocks * 512 >= found.st_size


@dataclass
class SlowDisk:
    """A durable tier that finishes when it is told to."""

    store: Store
    go_on: threading.Event = field(default_factory=threading.Event)

    def commit(self, content: memoryview, manifest: TheManifest) -> Entry:
        """Wait, then keep it."""
        assert self.go_on.wait(60)
        return self.store.commit(content, manifest)

    def prune(self, *, never: frozenset[str]) -> int:
        """Nothing."""
        del never
        return 0


def test_slow_disk_holds_no_step(run: Run) -> None:
    """While one slot is written to disk, the other takes every next snapshot, and what
    reaches the disk is what was copied."""
    disk = SlowDisk(run.store)
    run.saver.sink = disk
    run.saver.save(content(1), manifest(1, 1), began=0.0, durable=True)
    for step in (2, 3, 4):
        run.saver.save(content(step), manifest(step, step), began=0.0, durable=False)
    while run.saver.busy:
        pass
    assert run.saver.writing
    assert run.in_memory() == [4, 1]
    disk.go_on.set()
    run.saver.wait()
    assert [values(run, entry) for entry in run.store.entries()] == [1.0]


class Dying(MemoryTier):
    """Dies before it lets a slot be a snapshot."""

    @override
    def commit(self, slot: Slot, manifest: TheManifest) -> Entry:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def _fill_and_die(directory: Path, tmpfs: Path, where: str) -> None:
    """Die by SIGKILL while the third snapshot is in flight."""
    run = open_run(directory, tmpfs)
    run.save(1, durable=True)
    run.save(2)

    def die(_value: object) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    if where.startswith("copy"):
        run.saver.beside = where == "copy aside"
        first, second = content(3)
        third = [first, second._replace(lasting=True, array_of=die)]
    else:
        third = content(3)
        run.saver.memory = Dying(tmpfs / "run", job="job", durable=run.store.directory)
    run.saver.save(third, manifest(3, 3), began=0.0, durable=False)
    run.saver.wait()


@pytest.mark.parametrize("where", ["copy", "copy aside", "hash"])
def test_slot_in_flight_is_never_whole(where: str, tmp_path: Path, tmpfs: Path) -> None:
    """Killed in the copy, or before it was sealed: the other slot is what is left."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_fill_and_die, args=(tmp_path, tmpfs, where))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    run = open_run(tmp_path, tmpfs)
    assert run.in_memory() == [2]
    plan = resume.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.manifest.step, plan.newest.entry.tier) == (2, MEMORY)
    assert plan.newest.tensors["a"].tolist() == [2.0] * 5000


def test_what_is_restored_from_is_not_overwritten(tmp_path: Path, tmpfs: Path) -> None:
    """A slot that is still to be restored from stays, until that is done."""
    first = open_run(tmp_path, tmpfs)
    first.save(1)
    first.save(2)
    first.store.close()
    run = open_run(tmp_path, tmpfs)
    plan = resume.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    run.saver.pinned |= plan.in_memory
    for step in (3, 4):
        run.save(step)
    assert float(plan.newest.tensors["a"][0]) == 2.0
    assert run.in_memory() == [4, 2]
    run.saver.pinned.clear()
    run.save(5)
    assert run.in_memory() == [5, 4]


def flip(path: Path, at: int) -> None:
    """Flip one bit."""
    with path.open("r+b") as file:
        file.seek(at, 2 if at < 0 else 0)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 4]))


def test_damaged_memory_falls_back(run: Run) -> None:
    """One flipped bit in memory: the same snapshot on disk, or the older slot."""
    run.save(1, durable=True)
    run.save(2)
    newest, older = run.memory.entries()
    flip(newest.path / TENSORS, -5)
    plan = resume.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert plan.newest.entry == older
    assert plan.quarantined[0]["snapshot"] == newest.name
    flip(older.path / MANIFEST, 30)
    plan = resume.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.entry.tier, plan.newest.manifest.step) == (DURABLE, 1)
    assert run.memory.entries() == []
    run.save(3)
    assert run.in_memory() == [3]


def test_newer_disk_wins_over_older_memory(run: Run) -> None:
    """By serial: memory first only among equals."""
    run.save(1)
    run.saver.memory = None
    run.save(2, durable=True)
    plan = resume.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.manifest.step, plan.newest.entry.tier) == (2, DURABLE)


def test_state_that_grows_gets_new_memory(run: Run) -> None:
    """Another layout: both slots are made anew, the values are right."""
    run.save(1)
    run.save(2)
    run.save(3, size=9000)
    run.save(4, size=9000)
    assert run.in_memory() == [4, 3]
    assert [values(run, entry) for entry in run.memory.entries()] == [4.0, 3.0]


def test_too_small_a_tmpfs_is_told_once(tmp_path: Path, tmpfs: Path) -> None:
    """One sentence with the sizes; every snapshot goes to disk from then on."""
    room = Room(300_000, "the tmpfs /dev/shm")
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
    again = open_run(tmp_path, tiny, Room(10**9, "a wrong answer"))
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
    run = open_run(tmp_path, tiny, Room(10**9, "a wrong answer"))
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


def test_memory_is_made_aside_before_the_first_copy(run: Run) -> None:
    """The training thread need not wait for pages: it asks until they are there."""
    assert not run.saver.prepared(content(1))
    run.saver.wait()
    assert run.saver.prepared(content(1))
    assert not run.saver.prepared(content(1, 7000))
    run.saver.wait()
    run.save(1, size=7000)
    assert run.in_memory() == [1]


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
