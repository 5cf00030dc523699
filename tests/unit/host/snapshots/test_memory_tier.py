"""What runs leave in a tmpfs, and who cleans it up."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.lifecycle.events import (
    NoticeReceived,
    ProgressReported,
    SnapshotFailed,
)
from supervisor.core.remediation.history import Unpromised
from supervisor.host.service.lock import acquire
from supervisor.host.snapshots.memory_tier import discard, preserve, release, sweep
from supervisor.host.snapshots.snapshot_catalog import (
    newest_step,
    snapshot_directories,
    verify,
)
from supervisor.host.telemetry.attempt_news import heard, learned
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.paths import OWNER, StatePaths, memory_directory
from supervisor.wire.snapshots.manifest import (
    DURABLE,
    FORMAT,
    MANIFEST,
    MEMORY,
    TENSORS,
    Manifest,
)
from supervisor.wire.snapshots.seal import hash_of, sealed


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """Where memory tiers lie."""
    directory = Path(tempfile.mkdtemp(prefix="test-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


def put(tier: Path, step: int, serial: int) -> Path:
    """A whole snapshot."""
    path = tier / f"{step:012d}-{serial:06d}"
    path.mkdir(parents=True)
    content = f"tensors of {serial}".encode() * 100
    (path / TENSORS).write_bytes(content)
    manifest = Manifest(
        format=FORMAT, job="job", attempt=1, serial=serial, step=step, fit=0,
        fit_done=False, epoch=0, step_in_epoch=0, batch=8, samples=0, slices=1,
        tensors_bytes=len(content), tensors_hash=hash_of(content), wall_time=1.0,
        state={"a": 1.5},
    )  # fmt: skip
    (path / MANIFEST).write_bytes(sealed(manifest))
    return path


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class Tiers:
    """Both tiers of run 1 of a job."""

    def __init__(self, tmpfs: Path, state: Path, job: str = "job") -> None:
        self.state = StatePaths(state)
        self.job = job
        self.durable = self.state.run(job, 1).snapshots
        self.durable.mkdir(parents=True)
        self.memory = memory_directory(tmpfs, f"id-of-{job}")
        self.memory.mkdir(mode=0o700)
        write_json(self.memory / OWNER, {"snapshots": str(self.durable)})

    def on_disk(self) -> list[str]:
        """Names of the durable snapshots, newest first."""
        return [path.name for path in snapshot_directories(self.durable) or ()]


@pytest.fixture
def tiers(tmp_path: Path, tmpfs: Path) -> Tiers:
    """Both tiers of a run."""
    return Tiers(tmpfs, tmp_path)


def test_newest_step_is_that_of_either_tier(tiers: Tiers) -> None:
    """An absent tier has none; one that cannot be read makes it unknown."""
    assert newest_step(tiers.durable, tiers.memory) == 0
    put(tiers.durable, 4, 1)
    assert newest_step(tiers.durable, None) == 4
    put(tiers.memory, 9, 2)
    assert newest_step(tiers.durable, tiers.memory) == 9
    (tiers.memory.parent / "file").write_text("")
    assert newest_step(tiers.durable, tiers.memory.parent / "file") is None


def test_newer_in_memory_goes_to_disk_before_it_is_given_up(tiers: Tiers) -> None:
    """Whole, under its name; a directory in flight is no snapshot."""
    put(tiers.durable, 4, 1)
    put(tiers.memory, 9, 3)
    put(tiers.memory, 7, 2)
    (tiers.memory / "slot-1.partial").mkdir()
    assert release(tiers.memory, tiers.durable) is None
    assert tiers.on_disk() == ["000000000009-000003", "000000000004-000001"]
    assert verify(tiers.durable / tiers.on_disk()[0]) is None
    assert not tiers.memory.exists()
    assert release(tiers.memory, tiers.durable) is None


def test_damaged_memory_is_not_preserved(tiers: Tiers) -> None:
    """The one before it is; where the disk has as new a one, nothing is copied."""
    newest = put(tiers.memory, 9, 3)
    put(tiers.memory, 7, 2)
    (newest / TENSORS).write_bytes((newest / TENSORS).read_bytes()[:-1] + b"x")
    assert "hash" in str(verify(newest))
    kept = preserve(tiers.memory, tiers.durable)
    assert kept == tiers.durable / "000000000007-000002"
    assert preserve(tiers.memory, tiers.durable) is None


def test_what_cannot_be_written_stays_in_memory(tiers: Tiers) -> None:
    """And a sentence says so: it is the newest there is."""
    put(tiers.memory, 9, 3)
    shutil.rmtree(tiers.durable)
    tiers.durable.write_text("in the way")
    problem = release(tiers.memory, tiers.durable)
    assert problem is not None
    assert "stays in" in problem
    assert newest_step(tiers.memory) == 9


def test_sweep_takes_from_the_dead_alone(tmp_path: Path, tmpfs: Path) -> None:
    """The run that begins, one whose job is held or whose training still drains, and
    what is not ours or not of this kind are left alone; the others are saved to disk,
    or are nobody's."""
    names = ("mine", "held", "dead", "gone", "draining")
    every = [Tiers(tmpfs, tmp_path / n, n) for n in names]
    mine, held, dead, gone, draining = every
    for tiers in every:
        put(tiers.memory, 5, 5)
    training = subprocess.Popen(
        [sys.executable, "-c", HOLD, draining.durable / ".lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert training.stdout is not None
    training.stdout.readline()
    shutil.rmtree(gone.state.root)
    (tmpfs / "trainwarden-link").symlink_to(dead.memory)
    (tmpfs / "trainwarden-nameless").mkdir()
    lock = acquire(held.state.lock("held"))
    assert lock is not None
    assert sweep(tmpfs, but=mine.memory) == []
    lock.release()
    training.communicate()
    left = sorted(path.name for path in tmpfs.iterdir())
    assert left == [
        "trainwarden-id-of-draining",
        "trainwarden-id-of-held",
        "trainwarden-id-of-mine",
        "trainwarden-link",
        "trainwarden-nameless",
    ]
    assert dead.on_disk() == ["000000000005-000005"]
    assert sweep(tmpfs / "missing", but=mine.memory) == []


def test_a_link_is_not_followed(tiers: Tiers, tmpfs: Path) -> None:
    """Anybody may put one into /dev/shm."""
    victim = tmpfs / "victim"
    victim.mkdir()
    link = tmpfs / "trainwarden-x"
    link.symlink_to(victim)
    discard(link)
    assert release(link, tiers.durable) is None
    assert victim.is_dir()


@pytest.mark.parametrize("what", ["manifest", "size", "name", "format", "hash", "gone"])
def test_verify_names_the_damage(tiers: Tiers, what: str) -> None:
    """Without any library beyond Python's own."""
    path = put(tiers.durable, 3, 3)
    assert verify(path) is None
    if what == "manifest":
        (path / MANIFEST).write_text("{")
    elif what == "size":
        (path / TENSORS).write_bytes(b"")
    elif what == "gone":
        (path / TENSORS).unlink()
    elif what == "name":
        path = path.rename(path.with_name("000000000004-000003"))
    else:
        text = (path / MANIFEST).read_text()
        old, new = (
            ('"format": 1', '"format": 2') if what == "format" else ("1.5", "1.6")
        )
        (path / MANIFEST).write_text(text.replace(old, new))
    expected = {
        "manifest": "cannot be read",
        "size": "has 0 bytes",
        "gone": "cannot be read",
        "name": "another snapshot",
        "format": "format 2",
        "hash": "recorded hash",
    }
    assert expected[what] in str(verify(path))


def test_core_hears_of_what_lasts() -> None:
    """A snapshot on disk and a restore from any tier are news; a snapshot in memory is
    none: there are several a second, and each piece of news is a write to the ledger."""

    def heard(kind: str, tier: str) -> ProgressReported | None:
        return learned(Record(kind, 1, {"step": 4, "tier": tier}))

    assert heard(RecordKind.SNAPSHOT, MEMORY) is None
    assert heard(RecordKind.SNAPSHOT, DURABLE) == ProgressReported(snapshot_step=4)
    assert heard(RecordKind.RESTORED, MEMORY) == ProgressReported(restored_step=4)


def test_core_hears_what_a_person_should_know() -> None:
    """Sentences, a promise that is not given, a snapshot that was not saved; a promise
    that holds is no news."""

    def told(kind: str, **fields: object) -> object:
        return heard(Record(kind, 1, fields))

    assert told(RecordKind.NOTICE, sentence="so it is") == [NoticeReceived("so it is")]
    assert told(RecordKind.PROMISE, bits=True, sentence="exact") == []
    (refused,) = heard(
        Record(RecordKind.PROMISE, 1, {"fit": 2, "bits": False, "sentence": "why"})
    )
    sentence = "a bit-identical resume is not promised: why"
    assert refused == NoticeReceived(sentence, Unpromised(fit=2, because="why"))
    assert told(RecordKind.SNAPSHOT, step=4, tier=DURABLE) == [
        ProgressReported(snapshot_step=4)
    ]
    failed = {"step": 9, "tier": DURABLE, "because": "no", "errno": 28}
    assert told(RecordKind.SNAPSHOT_FAILED, **failed) == [
        SnapshotFailed(in_memory=False, step=9, because="no", no_room=True)
    ]
    assert told(RecordKind.SNAPSHOT_FAILED, tier=MEMORY, because="?", errno=None) == [
        SnapshotFailed(in_memory=True, step=None, because="?", no_room=False)
    ]
    assert told(RecordKind.EPOCH_ENDED) == []
