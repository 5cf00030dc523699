"""The uploader: what it sends and removes, killed, fenced, and without its store."""

import shutil
import time
from pathlib import Path

import pytest

from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.remote.remote_job import RemoteJob
from supervisor.host.remote.remote_store import open_store
from supervisor.host.remote.snapshot_uploader import UploadRequest, news_in
from supervisor.wire.paths import RunPaths
from tests.support.remote_tiers import TOKEN, claim_record, write_snapshot
from tests.support.uploading import (
    PATIENCE,
    consistent,
    progress_of,
    tell,
    until,
    uploading,
)

KILLS = 4
"""Places of a kill; ``make remote`` has 100."""


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run without snapshots yet."""
    paths = RunPaths(tmp_path / "run-1")
    paths.snapshots.mkdir(parents=True)
    return paths


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Of an empty remote tier."""
    (tmp_path / "bucket").mkdir()
    return f"file://{tmp_path}/bucket"


def objects(address: str) -> int:
    """How many there are."""
    bucket = Path(address.removeprefix("file://"))
    return sum(path.is_file() for path in bucket.rglob("*"))


def until_sent(run: RunPaths, address: str, number: int, *, step: int) -> None:
    """Wait until there are so many objects, or that ``step`` is whole."""
    while objects(address) < number:
        told = progress_of(run)
        if told is not None and told.step == step:
            return
        time.sleep(0.02)


def job_at(address: str) -> RemoteJob:
    """The job ``train`` there."""
    return RemoteJob(open_store(address, below="train"), "train")


def test_the_newest_is_sent_and_the_old_removed(
    run: RunPaths, address: str, tmp_path: Path
) -> None:
    """With the ends of finished calls of fit; the last one when the run ends."""
    write_snapshot(run.snapshots, step=10, serial=1, fit_done=True)
    write_snapshot(run.snapshots, step=15, serial=2, fit=1)
    write_snapshot(run.snapshots, step=20, serial=3, fit=1)
    with uploading(run, address, keep=1) as process:
        until(run, step=20)
        names = [name.local[-6:] for name in job_at(address).standing().sealed]
        assert sorted(names) == ["000001", "000003"]
        write_snapshot(run.snapshots, step=30, serial=4, fit=1)
        tell(process, "drained", ended=True)
        assert process.wait(PATIENCE) == 0
    names = [name.local[-6:] for name in job_at(address).standing().sealed]
    assert sorted(names) == ["000001", "000004"]
    assert consistent(run, address, tmp_path / "there") == 30
    (claim,) = job_at(address).standing().claims
    record = job_at(address).record(claim)
    assert record is not None
    assert record.state == "drained"


def test_it_ends_with_its_supervisor(run: RunPaths, address: str) -> None:
    """Nothing is left of a run that is gone."""
    with uploading(run, address) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_killed_anywhere_the_tier_stays_whole(
    run: RunPaths, address: str, tmp_path: Path
) -> None:
    """What counts is the one before or the newest, to the byte; parts are kept."""
    write_snapshot(run.snapshots, step=10, serial=1, size=20_000)
    with uploading(run, address):
        until(run, step=10)
    write_snapshot(run.snapshots, step=20, serial=2, size=60_000)
    for place in range(KILLS):
        before = objects(address)
        with uploading(run, address, bytes_per_second=60_000):
            until(run, sending=f"{20:012d}-{2:06d}")
            time.sleep(0.1 + 0.15 * place)
            if place == KILLS - 1:  # on a busy machine none may be whole by then
                until_sent(run, address, before + 2, step=20)
        assert consistent(run, address, tmp_path / f"there-{place}") in {10, 20}
    with uploading(run, address):
        told = until(run, step=20, sending=None)
    assert consistent(run, address, tmp_path / "there") == 20
    assert told.kept_bytes > 0 or told.sent_bytes == 0


def test_a_higher_claim_ends_it(run: RunPaths, address: str) -> None:
    """Another machine has taken the run over: nothing is written, whatever the clocks."""
    first = claim_record(host="second", claimed_at=-1e9, told_at=-1e9)
    job_at(address).put_record(Claim(2, TOKEN), first)
    write_snapshot(run.snapshots, step=10, serial=1)
    with uploading(run, address) as process:
        assert process.wait(PATIENCE) == 0
    told = progress_of(run)
    assert told is not None
    assert told.taken_by == "second"
    assert told.boot_id == boot_id()
    assert job_at(address).standing().parts == {}


def test_what_the_run_turned_away_from_is_removed(
    run: RunPaths, address: str, tmp_path: Path
) -> None:
    """The loss was lost after it: no machine may go on from it."""
    write_snapshot(run.snapshots, step=10, serial=1)
    with uploading(run, address):
        until(run, step=10, sending=None)
        bad = write_snapshot(run.snapshots, step=20, serial=2)
        until(run, step=20, sending=None)
        (run.snapshots / "abandoned").mkdir()
        bad.rename(run.snapshots / "abandoned" / bad.name)
        ends = time.monotonic() + PATIENCE
        while len(job_at(address).standing().sealed) > 1:
            assert time.monotonic() < ends
            time.sleep(0.05)
    assert consistent(run, address, tmp_path / "there") == 10


def test_a_store_that_fails_is_told_and_tried_again(
    run: RunPaths, address: str, tmp_path: Path
) -> None:
    """Here a file lies where the job's directory should."""
    bucket = tmp_path / "bucket"
    (bucket / "train").write_text("in the way")
    write_snapshot(run.snapshots, step=10, serial=1)
    with uploading(run, address):
        ends = time.monotonic() + PATIENCE
        while (told := progress_of(run)) is None or told.problem is None:
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert told.failures > 0
        (bucket / "train").unlink()
        until(run, step=10, problem=None)


def test_a_snapshot_that_vanishes_is_no_failure(run: RunPaths, address: str) -> None:
    """Training prunes what it likes, while it is sent, too."""
    gone = write_snapshot(run.snapshots, step=10, serial=1, size=40_000)
    with uploading(run, address, bytes_per_second=40_000):
        until(run, sending=gone.name)
        shutil.rmtree(gone)
        write_snapshot(run.snapshots, step=20, serial=2)
        told = until(run, step=20)
    assert told.failures == 0


def test_lines_that_are_none_are_passed_over() -> None:
    """The last of those that came counts."""
    assert news_in(b"") is None
    assert news_in(b"x\n") is None
    assert news_in(b"[1]\n") is None
    news = news_in(b'x\n{"state": "drained", "ended": true}\n')
    assert news is not None
    assert news.state == "drained"
    assert UploadRequest.from_json({}) is None
