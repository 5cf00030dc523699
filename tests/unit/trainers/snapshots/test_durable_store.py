"""Snapshots on disk: whole or absent, verified, and readable by others."""

import json
import multiprocessing
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load as load_safetensors

from supervisor.wire.snapshots.manifest import MANIFEST, TENSORS, Manifest
from trainers.snapshots import durable_store, selection, tensor_image
from trainers.snapshots.durable_store import DamagedError, SnapshotEntry, Store
from trainers.snapshots.writer import Saved, SnapshotWriter


def manifest(step: int, serial: int, **changes: object) -> Manifest:
    """What is said of a snapshot at ``step``."""
    values: dict[str, object] = {
        "format": 1,
        "job": "job",
        "attempt": 1,
        "serial": serial,
        "step": step,
        "fit": 0,
        "fit_done": False,
        "epoch": 0,
        "step_in_epoch": step,
        "batch": 8,
        "samples": 8 * step,
        "slices": 1,
        "tensors_bytes": 0,
        "tensors_hash": "",
        "wall_time": 1.5,
        "state": {"variables": ["a"], "rate": 0.1},
        **changes,
    }
    return Manifest(**values)  # type: ignore[arg-type]  # by name, from above


ARRAYS = {
    "weights": np.arange(5000, dtype=np.float32).reshape(50, 100),
    "flag": np.array(True),  # noqa: FBT003  # a scalar tensor
    "steps": np.array(3, dtype=np.int64),
    "none": np.empty((0, 3), dtype=np.float16),
}


def save(store: Store, step: int, serial: int, **changes: object) -> SnapshotEntry:
    """Commit a snapshot through the saver."""
    told: list[Saved] = []
    saver = SnapshotWriter(store, told.append)
    content = [tensor_image.of_array(name, array) for name, array in ARRAYS.items()]
    saver.save(content, manifest(step, serial, **changes), began=0.0)
    saver.wait()
    assert told[0].error is None, told[0].error
    assert told[0].entry is not None
    return told[0].entry


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A directory of snapshots of which two are kept."""
    with closing(Store(tmp_path / "snapshots", job="job", kept=2)) as opened:
        yield opened


def test_snapshot_comes_back_as_it_was(store: Store) -> None:
    """Every tensor and field, of every shape, zero and scalar ones included."""
    taken = durable_store.load(save(store, 7, 1), job=store.job)
    assert taken.entry.name == "000000000007-000001"
    assert {name: a.tolist() for name, a in taken.tensors.items()} == {
        name: a.tolist() for name, a in ARRAYS.items()
    }
    assert (taken.manifest.step, taken.manifest.state["rate"]) == (7, 0.1)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(
        arrays.arrays(
            dtype=st.sampled_from(
                ["float64", "float32", "float16", "int8", "uint64", "bool"]
            ),
            shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=6,
    )
)
def test_safetensors_reads_what_we_write(values: list[np.ndarray]) -> None:
    """The layout is the published one: its own library agrees on every byte."""
    content = [tensor_image.of_array(f"t{i}", array) for i, array in enumerate(values)]
    image = tensor_image.Image(content)
    image.fill(content)
    theirs, ours = (
        load_safetensors(bytes(image.content)),
        tensor_image.parse(image.content),
    )
    for i, array in enumerate(values):
        assert theirs[f"t{i}"].tobytes() == array.tobytes()
        assert ours[f"t{i}"].tobytes() == array.tobytes()
        assert theirs[f"t{i}"].shape == ours[f"t{i}"].shape == array.shape


def damaged(store: Store, entry: SnapshotEntry) -> str:
    """Why ``entry`` is not used."""
    with pytest.raises(DamagedError) as caught:
        durable_store.load(entry, job=store.job)
    return str(caught.value)


def test_truncation_at_every_4_kib_is_found(store: Store) -> None:
    """However much of the tensor file is missing."""
    entry = save(store, 1, 1)
    path = entry.path / TENSORS
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 4096), len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "bytes" in damaged(store, entry)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_every_flipped_bit_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In the tensors, in their header, in the manifest: one bit is enough."""
    directory = tmp_path_factory.mktemp("flip")
    with closing(Store(directory, job="job", kept=2)) as store:
        entry = save(store, 1, 1)
        path = entry.path / data.draw(st.sampled_from([TENSORS, MANIFEST]))
        content = bytearray(path.read_bytes())
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        damaged(store, entry)
    shutil.rmtree(directory)


def test_missing_empty_foreign_and_old_files_are_found(store: Store) -> None:
    """Each with its reason."""
    one, two = save(store, 1, 1), save(store, 2, 2, state={"variables": []})
    kept = {
        e: {f: (e.path / f).read_bytes() for f in (MANIFEST, TENSORS)}
        for e in (one, two)
    }

    def with_file(name: str, content: bytes | None) -> str:
        for file, whole in kept[two].items():
            (two.path / file).write_bytes(whole)
        if content is None:
            (two.path / name).unlink()
        else:
            (two.path / name).write_bytes(content)
        return damaged(store, two)

    old = json.loads(kept[two][MANIFEST]) | {"format": 0}
    assert "missing" in with_file(MANIFEST, None)
    assert "cannot be read" in with_file(MANIFEST, b"")
    assert "cannot be read" in with_file(TENSORS, None)
    assert "another snapshot" in with_file(MANIFEST, kept[one][MANIFEST])
    assert "format 0" in with_file(MANIFEST, json.dumps(old).encode())


def test_snapshot_of_another_job_is_not_used(store: Store) -> None:
    """A directory copied from another job is told by the job's name in it."""
    entry = save(store, 3, 3, job="other")
    assert "belongs to the job other" in damaged(store, entry)


def test_half_written_ones_are_removed_at_the_start(tmp_path: Path) -> None:
    """A snapshot in flight when the process died never looks whole."""
    directory = tmp_path / "snapshots"
    (directory / "000000000009-000001.partial").mkdir(parents=True)
    with closing(Store(directory, job="job", kept=1)) as store:
        assert store.entries() == []
    assert list(directory.glob("*.partial")) == []


def _try_to_open(directory: Path, answer: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        Store(directory, job="job", kept=1)
    except durable_store.DirectoryTakenError as error:
        answer.put(str(error))


def test_two_processes_never_share_a_directory(store: Store) -> None:
    """The second one is told; forked children of the first do not hold the lock."""
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    process = context.Process(target=_try_to_open, args=(store.directory, answer))
    process.start()
    process.join(30)
    assert "another process uses" in answer.get()


def test_old_ones_go_but_never_a_protected_one(store: Store) -> None:
    """Two are kept beside those that are protected."""
    entries = [save(store, step, step) for step in (1, 2, 3, 4)]
    store.prune(never=frozenset({entries[0].name}))
    left = [entry.step for entry in store.entries()]
    assert left == [4, 3]  # each save pruned already: 1 was not yet protected
    first = save(store, 5, 5)
    for step in (6, 7, 8):
        saver = SnapshotWriter(store, lambda _: None, protected={first.name})
        content = [tensor_image.of_array("a", np.zeros(2))]
        saver.save(content, manifest(step, step), began=0.0)
        saver.wait()
    assert [entry.step for entry in store.entries()] == [8, 7, 5]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes: a real OSError from a real write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_loses_the_snapshot_and_nothing_else(store: Store) -> None:
    """The failure is a value, the half-written one is gone, the last good one stays."""
    good = save(store, 1, 1)
    told: list[Saved] = []
    saver = SnapshotWriter(store, told.append)
    content = [tensor_image.of_array(name, array) for name, array in ARRAYS.items()]
    with largest_file(8192):
        saver.save(content, manifest(2, 2), began=0.0)
        saver.wait()
    assert told[0].entry is None
    assert told[0].error is not None
    assert told[0].error.errno is not None
    assert [entry.name for entry in store.entries()] == [good.name]
    assert sorted(os.listdir(store.directory)) == [".lock", good.name]  # noqa: PTH208
    assert durable_store.load(good, job=store.job).manifest.step == 1


def test_newest_whole_one_is_chosen_and_damage_is_set_aside(store: Store) -> None:
    """The youngest is damaged: the one before is used, the damaged one is kept aside,
    and its serial is not used again."""
    good, bad = save(store, 5, 1), save(store, 9, 2)
    (bad.path / TENSORS).write_bytes(b"")
    plan = selection.choose(store, before_step=None)
    assert plan.newest is not None
    assert plan.newest.entry == good
    assert [damage["snapshot"] for damage in plan.quarantined] == [bad.name]
    assert (store.directory / durable_store.QUARANTINE / bad.name).is_dir()
    assert store.next_serial() == 3


def test_going_back_leaves_the_later_ones_behind(store: Store) -> None:
    """``restore_before_step`` sets later ones aside: no attempt returns to them."""
    save(store, 5, 1)
    save(store, 9, 2)
    plan = selection.choose(store, before_step=9)
    assert plan.newest is not None
    assert plan.newest.manifest.step == 5
    assert len(list((store.directory / durable_store.ABANDONED).iterdir())) == 1
    again = selection.choose(store, before_step=None)
    assert again.newest is not None
    assert again.newest.manifest.step == 5


def test_middle_of_a_fit_needs_the_ends_of_those_before(store: Store) -> None:
    """A damaged end state of an earlier fit: back to the middle of that fit."""
    store.kept = 9
    save(store, 4, 1, fit=0)
    end = save(store, 8, 2, fit=0, fit_done=True)
    save(store, 10, 3, fit=1)
    plan = selection.choose(store, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.manifest.step, sorted(plan.finished)) == (10, [0])
    (end.path / MANIFEST).unlink()
    plan = selection.choose(store, before_step=None)
    assert plan.newest is not None
    assert (plan.newest.manifest.step, plan.finished) == (4, {})


def test_quota_takes_the_oldest_but_never_the_last_good_one(tmp_path: Path) -> None:
    """Whatever the quota, the newest and the protected ones stay."""
    with closing(Store(tmp_path / "snapshots", job="job", kept=9)) as store:
        first = save(store, 1, 1)
        size = sum(path.stat().st_size for path in first.path.iterdir())
        for step in (2, 3, 4, 5):
            save(store, step, step)
        store.quota_bytes = 3 * size + size // 2
        assert store.prune(never=frozenset({first.name})) == 0
        assert [entry.step for entry in store.entries()] == [5, 4, 1]
        store.quota_bytes = 1
        assert store.prune(never=frozenset({first.name})) > size
        assert [entry.step for entry in store.entries()] == [5, 1]
        save(store, 6, 6)
        assert [entry.step for entry in store.entries()] == [6]
