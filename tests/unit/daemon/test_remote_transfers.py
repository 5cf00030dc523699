"""Looks into remote tiers before a daemon's jobs begin, and what they come to."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.daemon.remote_arrival import look
from supervisor.daemon.remote_transfers import (
    MOST_LOOKS,
    ArrivalOutcome,
    RemoteTransfers,
)
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.clock import Clock
from supervisor.host.service.journal import Journal
from supervisor.host.service.lock import acquire
from supervisor.runtime.remote_resume import RemoteUnreachableError
from supervisor.wire.paths import StatePaths

PATIENCE = 60.0


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    """A state directory with a job that goes to a directory beside it."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "train.py").touch()
    found = StatePaths(tmp_path / "state")
    found.root.mkdir()
    with contextlib.closing(Ledger(found.ledger)) as ledger:
        JobBook(ledger).put(
            "train",
            owner="alice",
            spec=tables(tmp_path),
            source=None,
            fresh=False,
            accept_changes=False,
            now=1.0,
        )
    return found


def tables(directory: Path) -> dict[str, object]:
    """Of its spec."""
    snapshots = {"remote": f"file://{directory}/bucket", "memory": "off"}
    return {
        "name": "train",
        "script": f"{directory}/train.py",
        "snapshots": snapshots,
    }


@pytest.fixture
def transfers(paths: StatePaths) -> Iterator[RemoteTransfers]:
    """Those of a daemon of that directory."""
    made = RemoteTransfers(paths=paths, clock=Clock(), say=Journal().say_of)
    with contextlib.closing(made):
        yield made


def spec_of(paths: StatePaths) -> Spec:
    """The job's."""
    return build_spec(tables(paths.root.parent))


def until_over(transfers: RemoteTransfers, spec: Spec) -> None:
    """Wait for the look of ``train``."""
    ends = time.monotonic() + PATIENCE
    while transfers.awaited("train", spec, fresh=False) is not None:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_job_without_a_tier_waits_for_nothing(transfers: RemoteTransfers) -> None:
    """No process is started for it."""
    spec = build_spec({"script": "a"})
    assert transfers.awaited("train", spec, fresh=False) is None
    assert transfers.may_begin("train", spec) is None


def test_a_job_begins_when_its_tier_was_asked(
    transfers: RemoteTransfers, paths: StatePaths
) -> None:
    """With a claim; meanwhile it says what it waits for."""
    spec = spec_of(paths)
    said = transfers.awaited("train", spec, fresh=False)
    assert said is not None
    assert said.startswith(f"asks {spec.snapshots.remote}")
    until_over(transfers, spec)
    outcome = transfers.may_begin("train", spec)
    assert outcome is not None
    assert (outcome.claim or "").startswith("000001-")


def test_only_a_few_are_asked_at_a_time_and_none_for_who_waits_no_more(
    transfers: RemoteTransfers, paths: StatePaths
) -> None:
    """The next one has its turn when one of them is over, or is wanted no more."""
    spec = spec_of(paths)
    for number in range(MOST_LOOKS):
        transfers.awaited(f"job-{number}", spec, fresh=False)
    said = transfers.awaited("late", spec, fresh=False)
    assert said is not None
    assert "is about to ask" in said
    transfers.keep_looks(["job-0", "late"])
    said = transfers.awaited("late", spec, fresh=False)
    assert said is not None
    assert "is about to ask" not in said


def test_what_is_asked_for_counts(
    transfers: RemoteTransfers, paths: StatePaths
) -> None:
    """What was told for the earlier run says nothing about one that is to begin anew."""
    spec = spec_of(paths)
    until_over(transfers, spec)
    assert transfers.awaited("train", spec, fresh=True) is not None


def test_nobody_looks_while_another_process_has_the_job(paths: StatePaths) -> None:
    """The daemon before may have left one that still fetches."""
    lock = paths.lock("train")
    lock.parent.mkdir(parents=True)
    held = acquire(lock)
    assert held is not None
    assert look(paths, "train").later == "another process supervises it"
    held.release()
    assert look(paths, "train").claim is not None
    assert look(paths, "nobody").later == "it is not in the ledger any more"


def test_a_tier_that_cannot_be_used(paths: StatePaths) -> None:
    """One that is not there is asked again."""
    (paths.root.parent / "bucket").rmdir()
    assert "is it mounted?" in (look(paths, "train").later or "")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (ArrivalOutcome(refused="why"), StartRefusedError),
        (ArrivalOutcome(later="why"), RemoteUnreachableError),
    ],
)
def test_what_keeps_a_job_from_its_start(
    transfers: RemoteTransfers,
    paths: StatePaths,
    monkeypatch: pytest.MonkeyPatch,
    outcome: ArrivalOutcome,
    error: type[Exception],
) -> None:
    """A person decides, or it is tried again."""
    spec = spec_of(paths)

    def of(_said: object) -> ArrivalOutcome:
        return outcome

    monkeypatch.setattr(ArrivalOutcome, "of", of)
    until_over(transfers, spec)
    with pytest.raises(error, match="why"):
        transfers.may_begin("train", spec)


@pytest.mark.parametrize("said", [b"", b"no json", b"[]", b'{"claim": 7}'])
def test_a_look_that_ended_before_it_could_tell(said: bytes) -> None:
    """It is tried again."""
    assert ArrivalOutcome.of(said) == ArrivalOutcome(
        later="the look into its remote tier failed"
    )
