"""Snapshots sent to a remote tier and fetched from it: to the byte, or not at all."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.jobs.remote.remote_tier import (
    SEAL,
    SNAPSHOTS,
    Claim,
    RemoteName,
    chains,
)
from supervisor.host.remote.remote_job import (
    DamagedRemoteError,
    RemoteJob,
    Sent,
    SourceGoneError,
    Terms,
    packed,
    unpack,
)
from supervisor.host.remote.remote_records import encoded
from supervisor.host.remote.remote_store import RemoteStore, open_store
from supervisor.wire.snapshots.manifest import TENSORS
from tests.support.remote_tiers import RUN_ID, TOKEN, same_files, write_snapshot
from tests.support.s3_server import BUCKET, S3Server

CLAIM = Claim(1, TOKEN)


class Tier:
    """A remote tier in a directory, and the durable tiers of two machines."""

    def __init__(self, root: Path, store: RemoteStore | None = None) -> None:
        self.bucket = root / "bucket"
        self.bucket.mkdir()
        self.here, self.there = root / "here", root / "there" / "snapshots"
        self.here.mkdir()
        self.there.mkdir(parents=True)
        store = store or open_store(f"file://{self.bucket}", below="train")
        self.job = RemoteJob(store, "train")

    def send(
        self, source: Path, *, may_seal: Callable[[], bool] = lambda: True
    ) -> Sent | None:
        """In parts of 1,000 bytes."""
        return self.job.send(
            source,
            run_id=RUN_ID,
            claim=CLAIM,
            there=self.job.standing().parts,
            terms=Terms(part_bytes=1000),
            run_files=b"{}",
            may_seal=may_seal,
        )

    def fetch(self) -> list[Path]:
        """The best chain, on the other machine."""
        sealed = self.job.sealed(self.job.standing(), run_id=RUN_ID)
        return [self.job.fetch(one, self.there) for one in chains(sealed)[0].all]

    def parts(self) -> list[Path]:
        """Files of snapshots in the bucket."""
        return sorted((self.bucket / "train" / SNAPSHOTS).rglob("*-*-*/*"))


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    """An empty one."""
    return Tier(tmp_path)


def test_what_is_fetched_is_what_was_sent(tier: Tier) -> None:
    """To the byte, whatever its size."""
    for serial, size in enumerate((1, 999, 1000, 1001, 25_000), start=1):
        source = write_snapshot(tier.here, step=serial, serial=serial, size=size)
        assert tier.send(source)
        (found,) = tier.fetch()
        assert found.name == source.name
        assert same_files(found, source)


def test_in_s3_too(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a real server."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    address = f"s3://{BUCKET}/{tmp_path.name}"
    tier = Tier(tmp_path, open_store(address, below="train"))
    source = write_snapshot(tier.here, step=1, serial=1, size=25_000)
    assert tier.send(source)
    (found,) = tier.fetch()
    assert same_files(found, source)


def test_parts_that_are_there_are_not_sent_again(tier: Tier) -> None:
    """After a kill only what is missing goes; one of another size does."""
    source = write_snapshot(tier.here, step=1, serial=1, size=10_000)
    assert tier.send(source, may_seal=lambda: False) is None
    assert tier.job.sealed(tier.job.standing(), run_id=RUN_ID) == []
    one, other = (path for path in tier.parts() if path.name[:5] in {"00003", "00004"})
    one.unlink()
    other.write_bytes(b"half")
    sent = tier.send(source)
    assert sent is not None
    assert sent.sent_bytes == 2000
    assert sent.kept_bytes >= 8000
    (found,) = tier.fetch()
    assert same_files(found, source)


def test_a_snapshot_without_its_seal_does_not_count(tier: Tier) -> None:
    """The one before is gone on from."""
    first = write_snapshot(tier.here, step=1, serial=1)
    second = write_snapshot(tier.here, step=2, serial=2)
    tier.send(first)
    tier.send(second, may_seal=lambda: False)
    assert [path.name for path in tier.fetch()] == [first.name]


def test_one_that_lost_a_part_does_not_count(tier: Tier) -> None:
    """By the names and sizes alone."""
    source = write_snapshot(tier.here, step=1, serial=1, size=5000)
    tier.send(source)
    tier.parts()[3].unlink()
    assert tier.job.sealed(tier.job.standing(), run_id=RUN_ID) == []


def test_a_flipped_bit_in_a_part_is_found_when_it_is_fetched(tier: Tier) -> None:
    """Nothing is left of it here."""
    tier.send(write_snapshot(tier.here, step=1, serial=1, size=5000))
    part = next(path for path in tier.parts() if path.name.startswith("00004"))
    content = bytearray(part.read_bytes())
    content[7] ^= 1
    part.write_bytes(content)
    with pytest.raises(DamagedRemoteError, match="hash in its name"):
        tier.fetch()
    assert list(tier.there.iterdir()) == []


def test_a_part_that_is_pruned_meanwhile_is_told(tier: Tier) -> None:
    """Its owner is alive and has a newer one."""
    tier.send(write_snapshot(tier.here, step=1, serial=1, size=5000))
    (one,) = tier.job.sealed(tier.job.standing(), run_id=RUN_ID)
    tier.job.remove(tier.job.standing(), [one.name])
    with pytest.raises(DamagedRemoteError, match="is gone"):
        tier.job.fetch(one, tier.there)
    assert tier.job.standing().parts == {}


def test_a_snapshot_that_is_damaged_on_disk_is_not_sealed(tier: Tier) -> None:
    """Elsewhere it would count as whole."""
    source = write_snapshot(tier.here, step=1, serial=1, size=5000)
    content = bytearray((source / TENSORS).read_bytes())
    content[10] ^= 1
    (source / TENSORS).write_bytes(content)
    with pytest.raises(SourceGoneError, match="recorded hash"):
        tier.send(source)
    shutil.rmtree(source)
    with pytest.raises(SourceGoneError):
        tier.send(source)
    assert tier.job.standing().sealed == []


def test_a_seal_of_another_job_or_name_is_none(tier: Tier) -> None:
    """Copied by somebody: not believed."""
    tier.send(write_snapshot(tier.here, step=1, serial=1))
    (name,) = tier.job.standing().sealed
    seal = tier.job.store.get(f"{SNAPSHOTS}/{name.name}/{SEAL}")
    assert seal is not None
    other = RemoteName(CLAIM, 9, 9)
    tier.job.store.put(f"{SNAPSHOTS}/{other.name}/{SEAL}", seal)
    assert tier.job.seal(other) is None
    assert RemoteJob(tier.job.store, "other").seal(name) is None


class FailingStore:
    """A store whose n-th put fails."""

    def __init__(self, store: RemoteStore, at: int) -> None:
        self.store, self.left = store, at

    def put(self, name: str, content: bytes) -> None:
        """As it says."""
        self.left -= 1
        if self.left == 0:
            raise OSError(name)
        self.store.put(name, content)

    def get(self, name: str) -> bytes | None:
        """As the store does."""
        return self.store.get(name)

    def sizes(self, prefix: str) -> dict[str, int]:
        """As the store does."""
        return self.store.sizes(prefix)

    def directories(self) -> list[str]:
        """As the store does."""
        return self.store.directories()

    def delete(self, names: Iterable[str]) -> None:
        """As the store does."""
        self.store.delete(names)


@pytest.mark.parametrize("at", range(1, 13))
def test_a_failure_at_any_place_leaves_the_one_before(tmp_path: Path, at: int) -> None:
    """And the next try sends the rest."""
    tier = Tier(tmp_path)
    first = write_snapshot(tier.here, step=1, serial=1, size=8000)
    second = write_snapshot(tier.here, step=2, serial=2, size=8000)
    tier.send(first)
    whole = tier.job
    tier.job = RemoteJob(FailingStore(whole.store, at), "train")
    failed = False
    try:
        tier.send(second)
    except OSError:
        failed = True
    tier.job = whole
    (found,) = tier.fetch()
    assert same_files(found, first if failed else second)
    tier.send(second)
    (found,) = tier.fetch()
    assert same_files(found, second)


def test_the_script_and_its_modules_travel(tmp_path: Path) -> None:
    """And nothing else that claims to."""
    here, there = tmp_path / "here", tmp_path / "there"
    module = f"{'a' * 24}-{'b' * 24}"
    (here / "modules").mkdir(parents=True)
    (here / "script").write_bytes(b"import x\n\xff")
    (here / "modules" / module).write_bytes(b"y")
    unpack(packed(here), there)
    assert (there / "script").read_bytes() == b"import x\n\xff"
    assert (there / "modules" / module).read_bytes() == b"y"
    evil = {"../evil": "eA==", "/srv/evil": "eA==", "modules/../../evil": "eA=="}
    unpack(json.dumps(evil).encode(), there)
    assert not list(tmp_path.rglob("evil"))
    for rubbish in (b"[1]", b"{", b'{"script": "%"}', b'{"script": 1}'):
        with pytest.raises(DamagedRemoteError):
            unpack(rubbish, there)


def test_a_manifest_of_another_place_in_the_run_is_none(tier: Tier) -> None:
    """Its seal tells where training would go on: both must say the same."""
    source = write_snapshot(tier.here, step=3, serial=1)
    assert tier.send(source)
    (name,) = tier.job.standing().sealed
    seal = tier.job.seal(name)
    assert seal is not None
    path = tier.bucket / "train" / SNAPSHOTS / name.name / SEAL
    path.write_bytes(encoded(replace(seal, fit_done=True)))
    tier.job = RemoteJob(tier.job.store, "train")
    with pytest.raises(DamagedRemoteError, match="not the one that was sealed"):
        tier.fetch()


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b'{"script": 7}', b"\xff"])
def test_files_of_a_run_that_are_none_are_damage(
    tmp_path: Path, content: bytes
) -> None:
    """Nothing of them is written."""
    with pytest.raises(DamagedRemoteError, match=r"run_files\.json"):
        unpack(content, tmp_path / "run")
    unpack(b'{"../evil": "aGVsbG8=", "modules/../../x": "aGVsbG8="}', tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
