"""The memory tier: two slots in a tmpfs that survive the process, whole or nameless."""

import errno
import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from supervisor.wire.snapshots.manifest import DURABLE, MANIFEST, MEMORY, TENSORS
from supervisor.wire.snapshots.manifest import Manifest as TheManifest
from tests.support.snapshot_tiers import TieredRun, content, manifest, open_run, values
from trainers.snapshots import selection, writer
from trainers.snapshots.durable_store import SnapshotEntry, Store
from trainers.snapshots.memory_store import MemoryTier, Slot
from trainers.snapshots.parallel_copy import Pair, copy_all
from trainers.snapshots.tensor_image import Tensor


@pytest.fixture
def run(tmp_path: Path, tmpfs: Path) -> Iterator[TieredRun]:
    """A run with both tiers."""
    opened = open_run(tmp_path, tmpfs)
    with closing(opened.store):
        yield opened


def test_lasting_values_are_copied_aside_and_let_go_of(run: TieredRun) -> None:
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
    run: TieredRun, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr(writer, "copy_all", copy_later)
    run.saver.save([tensor], manifest(1, 1), began=0.0, durable=True)
    assert held[0]() is None
    saving.set()
    run.saver.wait()
    assert [values(run, one.entry) for one in run.told if one.entry] == [7.0, 7.0]


def test_no_memory_to_copy_into_is_told(
    run: TieredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is found out beside training, that goes on; so does the next snapshot."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    run.saver.memory = None
    with monkeypatch.context() as patched:
        patched.setattr(writer, "Image", full)
        run.save(1)
    assert [(one.entry, one.tier, one.nbytes) for one in run.told] == [
        (None, DURABLE, 0)
    ]
    assert run.told[0].error is not None
    run.save(2)
    assert [entry.step for entry in run.store.entries()] == [2]


def test_two_slots_in_turn(run: TieredRun) -> None:
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


def test_durable_one_is_made_from_the_slot(run: TieredRun) -> None:
    """Both tiers hold the same bytes under the same name."""
    run.save(3, durable=True)
    inside, outside = run.memory.entries()[0], run.store.entries()[0]
    assert inside.name == outside.name
    for name in (MANIFEST, TENSORS):
        assert (inside.path / name).read_bytes() == (outside.path / name).read_bytes()
    assert [saved.tier for saved in run.told] == [MEMORY, DURABLE]


def test_memory_is_all_there_before_it_is_written(run: TieredRun) -> None:
    """No hole in a slot: a full tmpfs must not be a SIGBUS in training."""
    run.save(1)
    found = (run.memory.entries()[0].path / TENSORS).stat()
    assert found.st_blocks * 512 >= found.st_size


@dataclass
class SlowDisk(Store):
    """A durable tier that finishes when it is told to."""

    store: Store
    go_on: threading.Event = field(default_factory=threading.Event)

    @override
    def commit(self, content: memoryview, manifest: TheManifest) -> SnapshotEntry:
        """Wait, then keep it."""
        assert self.go_on.wait(60)
        return self.store.commit(content, manifest)

    @override
    def prune(self, *, never: frozenset[str]) -> int:
        """Nothing."""
        del never
        return 0


def test_slow_disk_holds_no_step(run: TieredRun) -> None:
    """While one slot is written to disk, the other takes every next snapshot, and what
    reaches the disk is what was copied."""
    disk = SlowDisk(run.store)
    run.saver.store = disk
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
    def commit(self, slot: Slot, manifest: TheManifest) -> SnapshotEntry:
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
    plan = selection.choose(run.store, memory=run.memory, before_step=None)
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
    plan = selection.choose(run.store, memory=run.memory, before_step=None)
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


def test_damaged_memory_falls_back(run: TieredRun) -> None:
    """One flipped bit in memory: the same snapshot on disk, or the older slot."""
    run.save(1, durable=True)
    run.save(2)
    newest, older = run.memory.entries()
    flip(newest.path / TENSORS, -5)
    plan = selection.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert plan.newest.entry == older
    assert plan.quarantined[0]["snapshot"] == newest.name
    flip(older.path / MANIFEST, 30)
    plan = selection.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.entry.tier, plan.newest.manifest.step) == (DURABLE, 1)
    assert run.memory.entries() == []
    run.save(3)
    assert run.in_memory() == [3]


def test_newer_disk_wins_over_older_memory(run: TieredRun) -> None:
    """By serial: memory first only among equals."""
    run.save(1)
    run.saver.memory = None
    run.save(2, durable=True)
    plan = selection.choose(run.store, memory=run.memory, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.manifest.step, plan.newest.entry.tier) == (2, DURABLE)


def test_state_that_grows_gets_new_memory(run: TieredRun) -> None:
    """Another layout: both slots are made anew, the values are right."""
    run.save(1)
    run.save(2)
    run.save(3, size=9000)
    run.save(4, size=9000)
    assert run.in_memory() == [4, 3]
    assert [values(run, entry) for entry in run.memory.entries()] == [4.0, 3.0]


def test_memory_is_made_aside_before_the_first_copy(run: TieredRun) -> None:
    """The training thread need not wait for pages: it asks until they are there."""
    assert not run.saver.prepared(content(1))
    run.saver.wait()
    assert run.saver.prepared(content(1))
    assert not run.saver.prepared(content(1, 7000))
    run.saver.wait()
    run.save(1, size=7000)
    assert run.in_memory() == [1]
