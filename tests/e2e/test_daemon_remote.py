"""Jobs of a daemon with a remote tier: real daemons on several "machines", a server of S3's
interface between them."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.host.remote.remote_job import RemoteJob
from supervisor.host.remote.remote_store import open_store
from supervisor.wire.files import read_json
from supervisor.wire.paths import RunPaths
from tests.support.boxes import BoxUnderTest, box_in, until
from tests.support.remote_tiers import TOKEN, claim_record, write_snapshot
from tests.support.s3_server import BUCKET, SECRET, S3Server, s3_server

WAITS = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path("go").exists(): time.sleep(0.05)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """One for all."""
    with s3_server() as server:
        yield server


@pytest.fixture
def boxes(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[BoxUnderTest, BoxUnderTest]]:
    """Two machines, whose daemons know by their environment who they are."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        made: list[BoxUnderTest] = []
        for name in ("one", "two"):
            directory = tmp_path / name
            directory.mkdir()
            made.append(stack.enter_context(box_in(directory)))
        yield made[0], made[1]


def said_of(job: dict[str, Any]) -> dict[str, Any]:
    """What its row says of the remote tier."""
    said: dict[str, Any] | None = job["remote"]
    return said or {}


def submit(box: BoxUnderTest, address: str, *more: str) -> None:
    """A job with snapshots there."""
    job = box.directory / "job.toml"
    script = box.script(WAITS)
    job.write_text(
        f'script = "{script}"\nname = "train"\nworking_directory = "{box.directory}"\n'
        f'[snapshots]\nmemory = "off"\nremote = "{address}"\n'
    )
    box.do("submit", "--spec", job, *more)


def remote_job(address: str) -> RemoteJob:
    """What lies there."""
    return RemoteJob(open_store(address, below="train"), "train")


def run_of(box: BoxUnderTest, number: int = 1) -> RunPaths:
    """The files of its run."""
    return RunPaths(box.state / "jobs" / "train" / f"run-{number}")


def state_there(address: str) -> tuple[int, str] | None:
    """Number and state of the highest claim."""
    remote = remote_job(address)
    highest = remote.standing().highest
    record = None if highest is None else remote.record(highest)
    return None if record is None or highest is None else (highest.number, record.state)


def test_a_run_leaves_its_machine_and_goes_on_elsewhere(
    boxes: tuple[BoxUnderTest, BoxUnderTest],
) -> None:
    """Claimed, sent while it runs, and fetched by the daemon of another machine; the end is
    told, and one more start on the first is refused. No secret is written."""
    one, two = boxes
    address = f"s3://{BUCKET}/moves"
    one.begin()
    submit(one, address)
    one.until(lambda job: job["pid"])
    snapshot = write_snapshot(run_of(one).snapshots, step=10, serial=1)
    one.until(lambda job: said_of(job).get("step") == 10)
    until(lambda: state_there(address) == (1, "running"))
    one.do("drain", "train")
    until(lambda: state_there(address) == (1, "drained"))

    two.begin()
    submit(two, address)
    two.until(lambda job: job["pid"])
    assert (run_of(two).snapshots / snapshot.name).is_dir()
    until(lambda: state_there(address) == (2, "running"))
    (two.directory / "go").touch()
    two.until(lambda job: job["state"] == "finished")
    until(lambda: state_there(address) == (2, "finished"))

    one.do("start", "train")
    one.until(lambda job: "has finished before, on" in (job["message"] or ""))
    files = [path for box in boxes for path in box.directory.rglob("*")]
    told = [
        one for one in files if one.is_file() and SECRET.encode() in one.read_bytes()
    ]
    assert told == []


def test_a_machine_that_was_thought_lost_is_fenced_off(
    boxes: tuple[BoxUnderTest, BoxUnderTest],
) -> None:
    """Its run goes on, as uploads end none; nothing more of it is sent, and it says so. What
    is newest there is taken at its next start."""
    one, _ = boxes
    address = f"s3://{BUCKET}/fenced"
    one.begin()
    submit(one, address)
    one.until(lambda job: job["pid"])
    write_snapshot(run_of(one).snapshots, step=10, serial=1)
    one.until(lambda job: said_of(job).get("step") == 10)
    remote = remote_job(address)
    record = remote.record(remote.standing().claims[0])
    assert record is not None
    remote.put_record(Claim(2, TOKEN), replace(record, host="vm-2"))
    write_snapshot(run_of(one).snapshots, step=20, serial=2)
    taken = one.until(lambda job: said_of(job).get("taken_by") == "vm-2")
    assert taken["state"] == "running"
    assert [name.step for name in remote.standing().sealed] == [10]
    one.do("drain", "train")
    one.until(lambda job: job["state"] == "drained")
    assert state_there(address) == (2, record.state)
    one.do("start", "train")
    one.until(lambda job: job["pid"])
    until(lambda: state_there(address) == (3, "running"))


def test_what_is_newest_is_sent_after_the_end_and_by_the_next_daemon(
    boxes: tuple[BoxUnderTest, BoxUnderTest],
) -> None:
    """The uploader of a daemon that is killed ends with it; the next one sends on with
    the same claim, though nothing runs any more."""
    one, _ = boxes
    address = f"s3://{BUCKET}/after"
    daemon = one.begin()
    submit(one, address)
    one.until(lambda job: job["pid"])
    until(lambda: state_there(address) == (1, "running"))
    one.end(daemon, 9)
    write_snapshot(run_of(one).snapshots, step=10, serial=1)
    (one.directory / "go").touch()
    daemon = one.begin()  # takes the end of the run up, and sends
    one.until(lambda job: job["state"] == "finished")
    until(lambda: state_there(address) == (1, "finished"))
    until(lambda: not (run_of(one).root / "remote-request.json").exists())
    one.end(daemon)
    value = read_json(run_of(one).remote_claim)
    assert value is not None
    assert Claim.of(str(value["claim"])) is not None


def test_a_store_that_does_not_answer(
    boxes: tuple[BoxUnderTest, BoxUnderTest], tmp_path: Path
) -> None:
    """A new machine waits for it instead of beginning anew, and other jobs go on."""
    one, _ = boxes
    one.begin()
    submit(one, f"file://{tmp_path}/mnt")
    one.until(lambda job: "is it mounted?" in (job["message"] or ""))
    other = one.script("print('done')", "other.py")
    one.do("submit", other)
    one.until(lambda job: job["state"] == "finished", "other")
    assert one.job()["attempt"] == 0
    (tmp_path / "mnt").mkdir()
    one.until(lambda job: job["pid"])


def test_a_new_run_of_its_name(boxes: tuple[BoxUnderTest, BoxUnderTest]) -> None:
    """``start --fresh`` begins anew above what another machine left; without, a run that
    belongs to another one here is refused."""
    one, _ = boxes
    address = f"s3://{BUCKET}/fresh"
    remote_job(address).put_record(
        Claim(7, TOKEN), claim_record("lost", state="finished")
    )
    one.begin()
    submit(one, address)
    one.until(lambda job: "has finished before, on lost" in (job["message"] or ""))
    one.do("start", "--fresh", "train")
    one.until(lambda job: job["pid"])
    until(lambda: state_there(address) == (8, "running"))
    found = json.loads(one.do("status", "--remote", address, "--json"))
    assert (found[0]["claims"], found[0]["state"]) == (8, "running")
