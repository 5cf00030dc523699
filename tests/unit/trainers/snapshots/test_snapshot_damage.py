"""Damage, failing disks and lost power: the last good snapshot is used, or none."""

import contextlib
import errno
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from supervisor.wire.snapshots.manifest import FORMAT, MANIFEST, TENSORS, Manifest
from tests.support.disk import Recorder, after_power_loss
from trainers.snapshots import durable_store, selection, tensor_image
from trainers.snapshots.durable_store import QUARANTINE, SnapshotEntry, Store
from trainers.snapshots.writer import Saved, SnapshotWriter

SEED = 20
SMALL = "140k"


def arrays(step: int) -> dict[str, np.ndarray]:
    """The state at ``step``: 40 KiB that differ in every row."""
    rng = np.random.default_rng(step)
    return {
        "weights": rng.normal(size=(100, 100)).astype("float32"),
        "steps": np.array(step),
    }


def manifest(step: int, **changes: object) -> Manifest:
    """What is said of the snapshot at ``step``."""
    values: dict[str, object] = {
        "format": FORMAT, "job": "job", "attempt": 1, "serial": step, "step": step,
        "fit": 0, "fit_done": False, "epoch": 0, "step_in_epoch": step, "batch": 8,
        "samples": 8 * step, "slices": 1, "tensors_bytes": 0, "tensors_hash": "",
        "wall_time": 1.5, "state": {"variables": ["weights"], "rate": 0.1},
    }  # fmt: skip
    return Manifest(**{**values, **changes})  # type: ignore[arg-type]  # by name


def save(store: Store, step: int) -> Saved:
    """Save the state at ``step``, as training does."""
    told: list[Saved] = []
    saver = SnapshotWriter(store, told.append)
    content = [
        tensor_image.of_array(name, array) for name, array in arrays(step).items()
    ]
    saver.save(content, manifest(step), began=0.0)
    saver.wait()
    return told[0]


def saved(store: Store, step: int) -> SnapshotEntry:
    """Save it, with success."""
    entry = save(store, step).entry
    assert entry is not None
    return entry


def chosen(directory: Path) -> int | None:
    """The step a new attempt goes on from; every byte of it is compared."""
    with closing(Store(directory, job="job", kept=2)) as store:
        newest = selection.choose(store, before_step=None).newest
        if newest is None:
            return None
        step = newest.manifest.step
        for name, array in arrays(step).items():
            assert newest.tensors[name].tobytes() == array.tobytes()
        return step


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, SnapshotEntry]:
    """A directory with the snapshots of steps 1 and 2, and the younger of them."""
    directory = tmp_path / "snapshots"
    with closing(Store(directory, job="job", kept=2)) as store:
        saved(store, 1)
        entry = saved(store, 2)
    assert chosen(directory) == 2
    return directory, entry


def restore(directory: Path, entry: SnapshotEntry, whole: dict[str, bytes]) -> None:
    """Undo damage and quarantine."""
    shutil.rmtree(directory / QUARANTINE, ignore_errors=True)
    entry.path.mkdir(exist_ok=True)
    for name, content in whole.items():
        (entry.path / name).write_bytes(content)


def test_damage_is_found_and_the_older_one_used(
    two: tuple[Path, SnapshotEntry],
) -> None:
    """Files cut at every 4 KiB boundary and at each end, missing, empty, swapped with
    the older snapshot's, of an older format: never a wrong resume."""
    directory, entry = two
    files = (TENSORS, MANIFEST)
    whole = {name: (entry.path / name).read_bytes() for name in files}
    older = next(p for p in directory.iterdir() if p.name.endswith("-000001"))
    old_format = json.dumps({**json.loads(whole[MANIFEST]), "format": FORMAT - 1})
    damages: list[tuple[str, bytes | None]] = [
        *((n, (older / n).read_bytes()) for n in files),
        *((n, None) for n in files),
        (MANIFEST, old_format.encode()),
        *((n, whole[n] + b"\0") for n in files),
    ]
    for name in files:
        cuts = [*range(0, len(whole[name]), 4096), 1, len(whole[name]) - 1]
        damages += [(name, whole[name][:cut]) for cut in cuts]
    for name, content in damages:
        restore(directory, entry, whole)
        if content is None:
            (entry.path / name).unlink()
        else:
            (entry.path / name).write_bytes(content)
        assert chosen(directory) == 1, (name, content and len(content))
        assert [p.name for p in (directory / QUARANTINE).iterdir()] == [entry.name]


def test_two_snapshots_that_changed_places_are_both_found(
    two: tuple[Path, SnapshotEntry],
) -> None:
    """Each has the other's files, whole: neither is used, not even the right one of
    them under the wrong name."""
    directory, entry = two
    older = next(p for p in directory.iterdir() if p.name.endswith("-000001"))
    aside = directory / "aside"
    entry.path.rename(aside)
    older.rename(entry.path)
    aside.rename(older)
    assert chosen(directory) is None
    assert len(list((directory / QUARANTINE).iterdir())) == 2


@pytest.mark.parametrize("flips", [300, pytest.param(2000, marks=pytest.mark.slow)])
def test_flipped_bits_are_found(two: tuple[Path, SnapshotEntry], flips: int) -> None:
    """At random places of the tensors and the manifest, by a seed: one bit each."""
    directory, entry = two
    draw = random.Random(SEED)  # noqa: S311  # drawn to be drawn again
    files = {n: bytearray((entry.path / n).read_bytes()) for n in (TENSORS, MANIFEST)}
    with closing(Store(directory, job="job", kept=2)) as store:
        for _ in range(flips):
            name = draw.choice([TENSORS, MANIFEST])
            bit = draw.randrange(8 * len(files[name]))
            flipped = bytearray(files[name])
            flipped[bit // 8] ^= 1 << bit % 8
            (entry.path / name).write_bytes(flipped)
            plan = selection.choose(store, before_step=None)
            assert plan.newest is not None
            assert plan.newest.manifest.step == 1, (name, bit)
            restore(directory, entry, {n: bytes(c) for n, c in files.items()})
    assert chosen(directory) == 2


def test_all_damaged_is_a_start_from_nothing(two: tuple[Path, SnapshotEntry]) -> None:
    """No snapshot is better than a wrong one."""
    directory, _ = two
    for path in directory.glob("0*"):
        (path / MANIFEST).write_bytes(b"")
    assert chosen(directory) is None


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOSPC,
        pytest.param(errno.EIO, marks=pytest.mark.slow),
        pytest.param(errno.EROFS, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("stays", [False, True])
def test_disk_that_fails_at_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, stays: bool
) -> None:
    """Whichever call fails, once or from then on: the failure is told or harmless, the
    last good snapshot stays, and the next one is saved when the disk is back."""
    calls = 0
    at = 0
    while at <= calls:
        directory = tmp_path / f"at-{at}"
        with closing(Store(directory, job="job", kept=1)) as store:
            saved(store, 1)
            recorder = Recorder(directory, fail_at=at, errno=number, stays=stays)
            with monkeypatch.context() as patch:
                recorder.install(patch)
                outcome = save(store, 2)
            calls = max(calls, len(recorder.calls) if not stays else calls)
            good = [e for e in store.entries() if _is_whole(store, e)]
            assert good, at
            assert outcome.error is None or outcome.error.errno == number
            assert outcome.error is not None or good[0].step == 2
            saved(store, 3)
        assert chosen(directory) == 3
        at += 1
        if stays:
            calls = max(calls, 12)
    assert calls > 8


def _is_whole(store: Store, entry: SnapshotEntry) -> bool:
    return durable_store.load(entry, job=store.job).manifest.step == entry.step


@pytest.mark.parametrize("draws", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_power_lost_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: int
) -> None:
    """After each call of saving and pruning, with what was not synced lost in part and
    in any order: the old or the new snapshot is there, whole; once saving is done, the
    new one."""
    directory, before = tmp_path / "snapshots", tmp_path / "before"
    with closing(Store(directory, job="job", kept=1)) as store:
        saved(store, 1)
        shutil.copytree(directory, before)
        recorder = Recorder(directory)
        with monkeypatch.context() as patch:
            recorder.install(patch)
            saved(store, 2)
    done = 1 + max(
        index
        for index, call in enumerate(recorder.calls)
        if (call.kind, call.path) == ("fsync", ".")
    )
    assert {"write", "fsync", "rename", "mkdir", "unlink"} <= {
        call.kind for call in recorder.calls
    }
    draw = random.Random(SEED)  # noqa: S311  # drawn to be drawn again
    found: set[int | None] = set()
    for count in range(len(recorder.calls) + 1):
        for keep in (0.0, 1.0, *[0.5] * draws):
            target = tmp_path / "after"
            shutil.rmtree(target, ignore_errors=True)
            calls = recorder.calls[:count]
            after_power_loss(before, calls, target, draw=draw, keep=keep)
            step = chosen(target)
            assert step == 2 if count >= done else step in {1, 2}, (count, keep)
            found.add(step)
    assert found == {1, 2}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for two snapshots and no third."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid() != 0:
        pytest.skip("mounting needs root")
    path = tmp_path / "disk"
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(path)]
    if subprocess.run([mount, *options], check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield path
    subprocess.run([unmount, "-l", str(path)], check=True)


def test_full_disk_for_real(small_disk: Path) -> None:
    """A full file system is told with its errno; the last good snapshot stays, and
    saving goes on when there is room."""
    with closing(Store(small_disk / "snapshots", job="job", kept=1)) as store:
        saved(store, 1)
        hog = small_disk / "hog"
        fill(hog)
        full = save(store, 2)
        assert full.error is not None
        assert full.error.errno == errno.ENOSPC
        assert [e.step for e in store.entries()] == [1]
        hog.unlink()
        saved(store, 3)
    assert chosen(small_disk / "snapshots") == 3


def test_read_only_for_real(small_disk: Path) -> None:
    """A disk that was remounted read-only, as the kernel does after an error: told with
    its errno, the last good snapshot can be used, and saving goes on when it is back."""
    mount = shutil.which("mount")
    assert mount is not None

    def remount(how: str) -> None:
        command = [mount, "-o", f"remount,{how}", str(small_disk)]
        subprocess.run(command, check=True)

    with closing(Store(small_disk / "snapshots", job="job", kept=1)) as store:
        saved(store, 1)
        os.close(store._lock)  # noqa: SLF001  # open for writing: it would be busy
        remount("ro")
        broken = save(store, 2)
        assert broken.error is not None
        assert broken.error.errno == errno.EROFS
        assert [e.step for e in store.entries()] == [1]
        assert _is_whole(store, store.entries()[0])
        remount("rw")
        store._lock = os.open(store.directory / ".lock", os.O_WRONLY)  # noqa: SLF001
        saved(store, 3)
    assert chosen(small_disk / "snapshots") == 3


def fill(path: Path) -> None:
    """Write until there is no space left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
