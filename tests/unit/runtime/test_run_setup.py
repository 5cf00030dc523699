"""What a supervisor that takes a run up knows of the one before: a real ledger."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import (
    Diagnosis,
    IncidentKind,
    Reason,
    Remedy,
    RemedyKind,
)
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.effects import (
    RecordIncident,
    ReviseAdvice,
    UpdateIncident,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    GateClear,
    ProgressReported,
    Spawned,
)
from supervisor.core.lifecycle.live_incidents import ON_DISK
from supervisor.core.lifecycle.progress_handling import without_a_step
from supervisor.core.lifecycle.run_state import DiskSaves, Offer, OpenIncident
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.overrides import LossRecovery, Overrides
from supervisor.core.remediation.policy import Decision
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.clock import Clock
from supervisor.runtime import run_setup
from supervisor.runtime.run_setup import (
    OTHER_SCRIPT,
    Begun,
    Job,
    ResumeOptions,
    begin,
    offer_of,
    on_disk_of,
    open_incident_of,
)
from supervisor.wire.paths import StatePaths
from tests.support.lives import fresh, happen

KILLED = RecordIncident(
    attempt=1,
    diagnosis=Diagnosis(cause=Cause.PREEMPTED, because=(), advice=""),
    remedy=Remedy(kind=RemedyKind.RESTART, because="nothing was wrong"),
    failed_step=41,
)
ENDED = AttemptHistory(number=1, cause=Cause.PREEMPTED)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """With one run, whose attempt was killed a minute ago."""
    with closing(Ledger(tmp_path / "ledger.sqlite")) as made:
        row = made.begin_run(
            run_id="a", job="digits", script="/a.py", script_hash="1", seed=1,
            spec={}, now=1.0,
        )  # fmt: skip
        made.record_incident(row.id, KILLED, now=Clock().wall() - 60.0)
        yield made


def found(
    ledger: Ledger, *attempts: AttemptHistory, budget_since: int = 1
) -> OpenIncident | None:
    """What the next supervisor knows."""
    row = ledger.latest_run("digits")
    assert row is not None
    row = replace(row, budget_since=budget_since)
    return open_incident_of(ledger, row, attempts, Clock())


def test_the_time_after_an_incident_goes_on_under_the_next_supervisor(
    ledger: Ledger,
) -> None:
    """A daemon that was killed during a back-off leaves no hole in what was lost."""
    incident = found(ledger, ENDED)
    assert incident is not None
    assert (incident.attempt, incident.failed_step) == (1, 41)
    assert incident.at is not None
    assert Clock().now() - incident.at == pytest.approx(60.0, abs=5.0)


def test_an_incident_is_over_that_was_closed_forgiven_or_followed(
    ledger: Ledger,
) -> None:
    """When an attempt that runs made its first step, nobody here has seen."""
    assert found(ledger) is None
    assert found(ledger, ENDED, AttemptHistory(number=2)) is None
    assert found(ledger, ENDED, replace(ENDED, number=2)) is None
    (row,) = ledger.latest_runs()
    unsaved = replace(KILLED, happened=IncidentKind.UNSAVED_ON_DISK)
    ledger.record_incident(row.id, unsaved, now=2.0)
    assert found(ledger, ENDED) is not None
    ledger.update_incident(row.id, UpdateIncident(attempt=1, downtime_seconds=2.0))
    assert found(ledger, ENDED) is None


def test_the_next_supervisor_knows_that_snapshots_were_not_written(
    ledger: Ledger,
) -> None:
    """What it then tells of the first that is, puts the advice of the incident in the
    past: it does not tell of that again."""
    (row,) = ledger.latest_runs()
    assert on_disk_of(ledger, row) is DiskSaves.SAVED
    unsaved = replace(
        KILLED,
        happened=IncidentKind.UNSAVED_ON_DISK,
        diagnosis=replace(KILLED.diagnosis, advice=ON_DISK),
    )
    ledger.record_incident(row.id, unsaved, now=2.0)
    assert on_disk_of(ledger, row) is DiskSaves.FAILING
    newer = ReviseAdvice(happened=IncidentKind.UNSAVED_ON_DISK, advice="it is over")
    ledger.revise_advice(row.id, newer)
    assert on_disk_of(ledger, row) is DiskSaves.SAVED
    others = [one.advice for one in ledger.incidents() if one.happened == "ended"]
    assert "it is over" not in others


def test_what_a_person_lets_go_on_has_its_steps_done_again(ledger: Ledger) -> None:
    """Those since the snapshot of a run that had given up are computed twice, as after any
    other crash. That nobody was there for a night is no time that it cost."""
    (row,) = ledger.latest_runs()
    ledger.update_incident(row.id, UpdateIncident(attempt=1, downtime_seconds=2.0))
    again = found(ledger, ENDED, budget_since=2)
    assert again == OpenIncident(attempt=1, failed_step=41, at=None)
    run, _ = happen(
        replace(
            fresh(), attempt=1, open_incident=again, history=History(attempts=(ENDED,))
        ),
        DeadlineExpired(),
        GateClear(),
        Spawned(8),
    )
    steps = (ProgressReported(restored_step=30), ProgressReported(first_step=31))
    run, effects = happen(run, *steps)
    assert effects[-1] == UpdateIncident(attempt=1, restored_step=30, lost_steps=11)
    assert run.open_incident is None
    left = replace(run, open_incident=again)
    assert without_a_step(left, at=900.0) == (run, ())


OFFER = Offer(
    number=2,
    ended=AttemptHistory(
        number=1,
        cause=Cause.NON_FINITE_LOSS,
        last_step=23,
        recoveries=(AttemptHistory(number=1, recovery=1),),
    ),
    diagnosis=Diagnosis(
        cause=Cause.NON_FINITE_LOSS,
        because=(Reason("the loss is \ud800", "non_finite"),),
    ),
    decision=Decision(
        remedy=Remedy(
            kind=RemedyKind.ROLLBACK, because="once", changes={"skip": [None, [1, 2]]}
        ),
        overrides=Overrides(detour=LossRecovery(restore_before_step=12)),
        remedy_step="rollback",
    ),
    at=17.5,
)
"""A failed step that its attempt was allowed to go on after."""


def test_what_an_attempt_was_allowed_is_known_until_it_ends(ledger: Ledger) -> None:
    """All of it, as it was; of another attempt, or one that ended, nothing."""
    running = AttemptHistory(number=1)
    (row,) = ledger.latest_runs()
    assert offer_of(row, (running,)) is None
    ledger.put_offer(row.id, OFFER)
    (row,) = ledger.latest_runs()
    assert offer_of(row, (running,)) == OFFER
    assert offer_of(row, ()) is None
    assert offer_of(row, (ENDED,)) is None
    assert offer_of(row, (ENDED, AttemptHistory(number=2))) is None
    ledger.put_offer(row.id, None)
    (row,) = ledger.latest_runs()
    assert offer_of(row, (running,)) is None


@pytest.mark.parametrize("edited", [False, True])
def test_another_script_ends_the_promise(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, edited: bool
) -> None:
    """Who lets a run go on with another script gets what neither of them makes alone: it
    is said at once, and kept for all that ask later. The same script withdraws nothing."""

    def step(*_places: Path) -> int:
        return 41

    monkeypatch.setattr(run_setup, "newest_step", step)
    (row,) = ledger.latest_runs()
    ledger.put_attempt(row.id, ENDED, now=2.0)
    begun = _again(ledger, tmp_path, script_hash="2" if edited else "1")
    (last,) = ledger.attempts(row.id)
    assert (last.unpromised is not None) == edited
    assert (OTHER_SCRIPT in begun.greeting) == edited
    assert begun.greeting.startswith("resuming /a.py from the snapshot at step 41")
    assert last.cause is Cause.PREEMPTED
    _again(ledger, tmp_path, script_hash="2" if edited else "1")
    (last,) = ledger.attempts(row.id)
    assert (last.unpromised is not None) == edited


def _again(ledger: Ledger, place: Path, *, script_hash: str) -> Begun:
    job = Job(
        name="digits",
        spec=Spec(name="digits", script="/a.py"),
        script=Path("/a.py"),
        script_hash=script_hash,
    )
    accepted = ResumeOptions(accept_changes=True, person=True)
    return begin(job, StatePaths(place), ledger, Clock(), accepted)
