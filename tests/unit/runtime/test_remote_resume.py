"""A run that another machine left: what is claimed, fetched and written down here."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import build_spec
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.remote.remote_job import RemoteJob, Terms
from supervisor.host.remote.remote_store import open_store
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.snapshot_catalog import snapshot_directories
from supervisor.runtime.remote_resume import (
    RemoteArrival,
    RemoteUnreachableError,
    arrive,
    own_claim,
    upload_request,
)
from supervisor.runtime.run_setup import Begun, Job, ResumeOptions, begin
from supervisor.runtime.status_builder import paths_of
from supervisor.wire.paths import RunPaths, StatePaths
from tests.support.remote_tiers import (
    RUN_ID,
    TOKEN,
    claim_record,
    same_files,
    write_snapshot,
)


class ResumingMachine:
    """A state directory, and what ``run`` does before training begins."""

    def __init__(self, root: Path, address: str) -> None:
        self.root, self.address = root, address
        root.mkdir()
        self.paths = StatePaths(root / "state")
        self.paths.root.mkdir()
        self.ledger = Ledger(self.paths.ledger)
        self.script = root / "train.py"
        self.script.write_text("")
        self.allows: dict[str, bool] = {}

    def job(self, *, script_hash: str = "1") -> Job:
        """Without a memory tier."""
        tables: dict[str, object] = {
            "script": "train.py",
            "remedies": self.allows,
            "snapshots": {"remote": self.address, "memory": "off"},
        }
        return Job(
            name="train",
            spec=build_spec(tables),
            script=self.script,
            script_hash=script_hash,
        )

    def arrive(self, choice: ResumeOptions | None = None) -> RemoteArrival:
        """Look into the tier."""
        choice = choice or ResumeOptions(person=True)
        return arrive(self.job(), self.paths, self.ledger, Clock(), choice)

    def start(self, choice: ResumeOptions | None = None) -> tuple[Begun, Claim]:
        """All of it: the run as it begins, and its claim."""
        choice = choice or ResumeOptions(person=True)
        arrival = self.arrive(choice)
        begun = begin(self.job(), self.paths, self.ledger, Clock(), choice)
        claim = Claim.of(upload_request(begun, arrival).claim)
        assert claim is not None
        return begun, claim

    def here(self) -> list[str]:
        """Names of the durable snapshots of the newest run."""
        return [path.name for path in snapshot_directories(self.run().snapshots) or ()]

    def run(self) -> RunPaths:
        """The newest run's files."""
        row = self.ledger.latest_run("train")
        assert row is not None
        return paths_of(row, self.paths)


class Bucket:
    """The remote tier, written to by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root / "bucket"
        self.root.mkdir()
        self.local = root / "elsewhere" / "snapshots"
        self.local.mkdir(parents=True)
        self.address = f"file://{self.root}"
        self.job = RemoteJob(open_store(self.address, below="train"), "train")

    def claim(self, number: int, host: object = "lost", **changes: object) -> None:
        """Another machine claims the run."""
        record = claim_record(**{"host": host, "script_hash": "1", **changes})
        self.job.put_record(Claim(number, TOKEN), record)

    def send(self, number: int, *, step: int, serial: int, run: str = RUN_ID) -> Path:
        """A snapshot of that claim."""
        source = write_snapshot(self.local, step=step, serial=serial)
        self.job.send(
            source,
            run_id=run,
            claim=Claim(number, TOKEN),
            there={},
            terms=Terms(),
            run_files=b'{"script": "aGVsbG8="}',
            may_seal=lambda: True,
        )
        return source


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """An empty one."""
    return Bucket(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, bucket: Bucket) -> Iterator[ResumingMachine]:
    """A new one."""
    made = ResumingMachine(tmp_path / "machine", bucket.address)
    with contextlib.closing(made.ledger):
        yield made


def test_a_first_run_is_claimed(machine: ResumingMachine, bucket: Bucket) -> None:
    """With its seed and identity, and no secret: neither spec nor arguments."""
    begun, claim = machine.start()
    assert claim.number == 1
    record = bucket.job.record(claim)
    assert record is not None
    assert (record.run_id, record.seed) == (begun.row.run_id, begun.row.seed)
    assert set(record.to_json()) == set(claim_record().to_json())
    assert own_claim(begun.paths, bucket.address) == claim
    assert own_claim(begun.paths, "s3://other") is None


def test_a_new_machine_goes_on_with_the_same_run(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """Its identity, seed, remedies, script and newest snapshot."""
    bucket.claim(1, overrides={"deterministic": True})
    bucket.send(1, step=10, serial=1)
    newest = bucket.send(1, step=20, serial=2)
    begun, claim = machine.start()
    assert (begun.row.run_id, begun.row.seed, claim.number) == (RUN_ID, 7, 2)
    assert begun.row.overrides is not None
    assert begun.row.overrides.deterministic
    assert machine.here() == [newest.name]
    assert same_files(begun.paths.snapshots / newest.name, newest)
    assert begun.paths.script.read_bytes() == b"hello"
    assert "from the snapshot at step 20" in begun.greeting


def test_a_damaged_one_is_passed_over(machine: ResumingMachine, bucket: Bucket) -> None:
    """The one before it is gone on from."""
    bucket.claim(1)
    good = bucket.send(1, step=10, serial=1)
    bad = bucket.send(1, step=20, serial=2)
    for part in (bucket.root / "train").rglob(f"*.000002-{20:012d}/0*"):
        part.write_bytes(bytes(part.stat().st_size))
    machine.start()
    assert machine.here() == [good.name] != [bad.name]


def test_the_same_machine_keeps_its_claim(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """A restart is no takeover; its disk has what is newest."""
    begun, claim = machine.start()
    newest = write_snapshot(begun.paths.snapshots, step=30, serial=3)
    bucket.send(1, step=10, serial=1, run=begun.row.run_id)
    _, again = machine.start()
    assert again == claim
    assert machine.here() == [newest.name]


def test_a_disk_that_lost_its_snapshots_gets_them_back(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """From the machine's own tier; what the run turned away from is not fetched."""
    begun, claim = machine.start()
    source = write_snapshot(bucket.local, step=10, serial=1)
    bucket.job.send(
        source, run_id=begun.row.run_id, claim=claim, there={}, terms=Terms(),
        run_files=b"{}", may_seal=lambda: True,
    )  # fmt: skip
    assert "was not here" in str(machine.arrive().sentence)
    assert machine.here() == [source.name]
    aside = begun.paths.snapshots / "abandoned"
    aside.mkdir()
    (begun.paths.snapshots / source.name).rename(aside / source.name)
    assert machine.arrive().sentence is None
    assert machine.here() == []


def test_a_machine_that_comes_back_takes_what_is_newer(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """Another one went on in the meantime: by claims, though its steps are fewer."""
    begun, claim = machine.start()
    old = write_snapshot(begun.paths.snapshots, step=90, serial=9)
    bucket.claim(claim.number + 1, "other", run_id=begun.row.run_id)
    newer = bucket.send(claim.number + 1, step=40, serial=4, run=begun.row.run_id)
    again, third = machine.start()
    assert (again.row.id, third.number) == (begun.row.id, claim.number + 2)
    assert machine.here() == [newer.name] != [old.name]


def test_what_the_other_one_never_sent_is_not_waited_for(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """It claimed the run, and sent nothing: this machine's own is the newest."""
    begun, claim = machine.start()
    own = write_snapshot(begun.paths.snapshots, step=90, serial=9)
    bucket.claim(claim.number + 1, "other", run_id=begun.row.run_id)
    machine.start()
    assert machine.here() == [own.name]


def test_killed_while_it_fetches_it_begins_again(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """Whatever was written down by then."""
    bucket.claim(1)
    newest = bucket.send(1, step=20, serial=2)
    machine.arrive()
    run = machine.run()
    run.remote_claim.unlink()
    (run.snapshots / newest.name).rename(run.snapshots / f"{newest.name}.partial")
    begun, claim = machine.start()
    assert (begun.row.run_id, claim.number) == (RUN_ID, 3)
    assert machine.here() == [newest.name]


def test_a_run_that_finished_elsewhere_is_not_done_again(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """A scheduler's restart is told where; a person's next one is a new run."""
    bucket.claim(1, state="finished")
    assert machine.arrive(ResumeOptions(person=False)).host == "lost"
    begun, claim = machine.start()
    assert begun.row.run_id != RUN_ID
    assert claim.number == 2


def test_it_finished_elsewhere_while_it_stood_still_here(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """What lies here is of before: nobody trains on from it."""
    begun, claim = machine.start()
    write_snapshot(begun.paths.snapshots, step=90, serial=9)
    bucket.claim(claim.number + 1, run_id=begun.row.run_id, state="finished")
    again, _ = machine.start()
    assert again.row.run_id != begun.row.run_id
    first = machine.ledger.attempts(begun.row.id)
    assert first == ()


def test_another_run_under_the_same_name_asks_a_person(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """Which of the two is meant cannot be known."""
    machine.start()
    bucket.claim(5)
    with pytest.raises(StartRefusedError, match="--fresh"):
        machine.arrive()
    begun, claim = machine.start(ResumeOptions(fresh=True, person=True))
    assert claim.number == 6
    assert begun.row.run_id != RUN_ID


def test_a_store_that_does_not_answer(
    machine: ResumingMachine, bucket: Bucket, tmp_path: Path
) -> None:
    """A machine that knows how far it came goes on; another one does not begin anew."""
    bucket.root.rename(tmp_path / "away")
    with pytest.raises(RemoteUnreachableError, match="is it mounted"):
        machine.arrive()
    (tmp_path / "away").rename(bucket.root)
    begun, claim = machine.start()
    bucket.root.rename(tmp_path / "away")
    arrival = machine.arrive()
    assert "does not answer" in str(arrival.sentence)
    assert upload_request(begun, arrival).claim == claim.name


def test_two_machines_that_begin_at_once(
    machine: ResumingMachine, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is refused; which, the tokens decide."""
    arrival = machine.arrive()
    begun = begin(
        machine.job(),
        machine.paths,
        machine.ledger,
        Clock(),
        ResumeOptions(person=True),
    )
    put = bucket.job.put_record

    def at_once(claim: Claim, _record: object) -> None:
        put(claim, claim_record())
        put(Claim(claim.number, "f" * 16), claim_record("other"))

    assert arrival.remote is not None
    monkeypatch.setattr(arrival.remote, "put_record", at_once)
    with pytest.raises(StartRefusedError, match="other has begun"):
        upload_request(begun, arrival)
    assert JobState.WAITING is begun.row.state


def test_a_run_that_was_given_up_or_forgotten_here_is_not_gone_on_with(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """Although the tier still names it: a new run may begin, and claims above it."""
    machine.start()
    machine.ledger.forget("train", now=1.0)
    begun, claim = machine.start()
    assert (begun.row.number, claim.number) == (2, 2)
    record = bucket.job.record(claim)
    assert record is not None
    assert record.run_id == begun.row.run_id


HOSTILE: tuple[dict[str, object], ...] = (
    {"run_id": "../../elsewhere"},
    {"run_id": ""},
    {"run_id": RUN_ID.upper()},
    {"seed": -1},
    {"seed": 2**63},
    {"state": "conquered"},
    {"host": "lost\x1b[2J"},
    {"script_hash": "x" * 300},
    {"overrides": {"variables": {"LD_PRELOAD": "/x.so"}}},
    {"overrides": {"script": "/x.py"}},
    {"overrides": {"plan": 7}},
    {"overrides": {"plan": {"slice_size": 0, "slices": 1, "calibrate": False}}},
    {"overrides": {"headroom": 2.0}},
    {"overrides": {"headroom": "0.1"}},
    {"overrides": {"precision": "float64"}},
    {"overrides": {"avoid": ["GPU-0"]}},
    {"overrides": {"recycle_bytes": 1}},
    {"overrides": {"detour": {"restore_before_step": -1}}},
    {"overrides": {"awaited": {"room_bytes": 2**60}}},
    {"overrides": {"deterministic": "yes"}, "state": "finished"},
)  # fmt: skip


@pytest.mark.parametrize("changes", HOSTILE, ids=str)
def test_what_no_supervisor_would_have_written_is_refused(
    machine: ResumingMachine, bucket: Bucket, changes: dict[str, object]
) -> None:
    """Before anything of it is kept, and with the way out; the store's claims stay."""
    bucket.claim(1, **changes)
    bucket.send(1, step=10, serial=1)
    with pytest.raises(StartRefusedError, match=f"{next(iter(changes))}.*--fresh"):
        machine.arrive()
    assert machine.ledger.latest_run("train") is None
    assert bucket.job.standing().highest == Claim(1, TOKEN)
    begun, claim = machine.start(ResumeOptions(fresh=True, person=True))
    assert (begun.row.overrides, claim.number) == (None, 2)


@pytest.mark.parametrize(
    ("overrides", "asks"),
    [
        ({"precision": "mixed_bfloat16"}, "mixed_precision"),
        ({"detour": {"restore_before_step": 3, "skip": [2, 5]}}, "skip_batches"),
        ({"detour": {"restore_before_step": 3, "rate_factor": 0.5}}, "lower_rate"),
    ],
)
def test_the_computation_is_changed_only_as_the_spec_here_allows(
    machine: ResumingMachine,
    bucket: Bucket,
    overrides: dict[str, object],
    asks: str,
) -> None:
    """What another machine's spec allowed is not allowed by that; of a finished run
    nothing is computed any more."""
    bucket.claim(1, overrides=overrides)
    with pytest.raises(StartRefusedError, match=f"remedies.{asks}"):
        machine.arrive()
    machine.allows = {asks: True}
    begun, _ = machine.start()
    assert begun.row.overrides is not None
    bucket.claim(9, overrides=overrides, state="finished")
    machine.allows = {}
    assert machine.arrive(ResumeOptions(person=False)).host == "lost"


def test_claims_that_cannot_be_read_are_not_begun_over(
    machine: ResumingMachine, bucket: Bucket
) -> None:
    """They may be of a run that has finished; a run that is here goes on."""
    bucket.claim(1)
    record = next((bucket.root / "train" / "claims").iterdir())
    record.write_bytes(b"{}")
    with pytest.raises(StartRefusedError, match="none of its claims can be read"):
        machine.arrive()
    begun, claim = machine.start(ResumeOptions(fresh=True, person=True))
    for path in (bucket.root / "train" / "claims").iterdir():
        path.write_bytes(b"{}")
    again, _ = machine.start()
    assert (again.row.id, claim.number) == (begun.row.id, 2)
