"""The ledger: real SQLite files."""

import json
import sqlite3
from dataclasses import asdict, replace
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
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import RecordIncident, UpdateIncident
from supervisor.core.liveness.progress_intervals import ProgressIntervals
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.fit_memory import SizePeaks
from supervisor.core.remediation.history import AttemptHistory, Unpromised
from supervisor.core.remediation.overrides import MIXED, Overrides
from supervisor.host.ledger.ledger import Ledger, LedgerError, RunRow
from supervisor.host.ledger.migrations import MIGRATIONS


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A new ledger."""
    return Ledger(tmp_path / "ledger.sqlite")


def begin(ledger: Ledger, job: str = "digits") -> RunRow:
    """A run in it."""
    return ledger.begin_run(
        run_id=f"{job}-{len(ledger.latest_runs())}-{ledger.latest_run(job)}"[:64],
        job=job,
        script="/a/train.py",
        script_hash="1",
        seed=2**62,
        spec={"script": "train.py"},
        now=1.0,
    )


def incident(attempt: int = 1) -> RecordIncident:
    """An OOM."""
    return RecordIncident(
        attempt=attempt,
        diagnosis=Diagnosis(
            cause=Cause.DEVICE_OOM,
            because=(Reason("ResourceExhaustedError", "tf.oom", 7),),
            memory=MemoryFigures(limit_bytes=600, in_use_bytes=500),
            advice="smaller",
        ),
        remedy=Remedy(
            kind=RemedyKind.MICROBATCH, because="fits", changes={"slices": [1, 4]}
        ),
        failed_step=41,
    )


def test_runs_of_a_job_are_counted(ledger: Ledger) -> None:
    """Each run of a name has a number; the newest is the one that is shown."""
    first, second, other = begin(ledger), begin(ledger), begin(ledger, "other")
    assert (first.number, second.number, other.number) == (1, 2, 1)
    assert [run.id for run in ledger.latest_runs()] == [second.id, other.id]
    assert ledger.latest_run("none") is None
    assert second.seed == 2**62


def test_a_run_is_stored_and_resumed(ledger: Ledger) -> None:
    """State, message and plan survive; resuming opens the run again."""
    run = begin(ledger)
    ledger.set_state(
        run.id,
        state=JobState.DRAINED,
        message="m",
        overrides={"growth": True},
        ended_at=2.0,
    )
    stored = ledger.latest_run("digits")
    assert stored is not None
    assert (stored.state, stored.message, stored.overrides, stored.ended_at) == (
        JobState.DRAINED,
        "m",
        Overrides(growth=True),
        2.0,
    )
    ledger.resume_run(run.id, script_hash="2", spec={}, now=5.0)
    again = ledger.latest_run("digits")
    assert again is not None
    assert (again.state, again.script_hash, again.ended_at) == (
        JobState.WAITING,
        "2",
        None,
    )


def test_attempts_come_back_as_they_went_in(ledger: Ledger) -> None:
    """The newest record of an attempt wins; order is by number."""
    run = begin(ledger)
    ledger.put_attempt(run.id, AttemptHistory(number=2), now=2.0)
    ledger.put_attempt(run.id, AttemptHistory(number=1), now=1.0)
    known = AttemptHistory(
        number=1,
        cause=Cause.DEVICE_OOM,
        remedy=RemedyKind.MICROBATCH,
        batch=512,
        peak_bytes=2**33,
        peaks=(
            SizePeaks(slice_size=8, usual_bytes=2**30, highest_bytes=2**31, steps=4),
        ),
        jit=True,
        overrides=Overrides(precision=MIXED),
        applied={"precision": True, "TF_GPU_ALLOCATOR": False},
        unmet={"allocator": "cuda_malloc_async"},
    )
    ledger.put_attempt(run.id, known, now=3.0)
    assert ledger.attempts(run.id) == (known, AttemptHistory(number=2))


def test_histories_of_before_have_other_names(ledger: Ledger) -> None:
    """What was the treatment, the rhythms and the rung is read as what it is called now."""
    run = begin(ledger)
    ledger.put_attempt(
        run.id, AttemptHistory(number=1, cause=Cause.DEVICE_OOM), now=1.0
    )
    with ledger.transaction() as connection:
        connection.execute(
            "UPDATE attempts SET history = json_remove(json_set(history,"
            " '$.treatment', json(?), '$.rung', 'slices', '$.rhythms', json(?)),"
            " '$.overrides', '$.remedy_step', '$.intervals')",
            (
                json.dumps(asdict(Overrides(precision=MIXED))),
                json.dumps([{"phase": "training", "count": 3, "longest": [2.0, 1.0]}]),
            ),
        )
    assert ledger.attempts(run.id) == (
        AttemptHistory(
            number=1,
            cause=Cause.DEVICE_OOM,
            overrides=Overrides(precision=MIXED),
            remedy_step="slices",
            intervals=(
                ProgressIntervals(phase="training", count=3, longest=(2.0, 1.0)),
            ),
        ),
    )


@pytest.mark.parametrize("kept", ["{", '{"number": 1}', "7"])
def test_an_offer_that_cannot_be_read_is_none(ledger: Ledger, kept: str) -> None:
    """Of another version, or damaged: no reader of the ledger fails for it."""
    run = begin(ledger)
    with ledger.transaction() as connection:
        connection.execute("UPDATE runs SET offer = ?", (kept,))
    found = ledger.latest_run("digits")
    assert found is not None
    assert (found.id, found.offer) == (run.id, None)


def test_an_incident_is_recorded_once_and_completed_later(ledger: Ledger) -> None:
    """A second record of an attempt changes nothing; what became of it is added."""
    run = begin(ledger)
    ledger.record_incident(run.id, incident(), now=0.0)
    ledger.record_incident(run.id, incident(), now=9.0)
    ledger.update_incident(
        run.id, UpdateIncident(attempt=1, restored_step=40, lost_steps=1)
    )
    ledger.update_incident(
        run.id,
        UpdateIncident(attempt=1, downtime_seconds=2.5, deviations=("BatchNorm",)),
    )
    ledger.update_incident(run.id, UpdateIncident(attempt=1, slices=7))
    ledger.update_incident(run.id, UpdateIncident(attempt=1, note="not in force"))
    (found,) = ledger.incidents(job="digits")
    assert found.at == "1970-01-01T00:00:00+00:00"
    assert found.cause == "device_oom"
    assert found.because == [
        {
            "text": "ResourceExhaustedError",
            "signature": "tf.oom",
            "line": 7,
            "code": None,
            "source": None,
        }
    ]
    assert found.remedy == {
        "kind": "microbatch",
        "changes": {"slices": [1, 7]},
        "because": "fits",
        "slices": {"asked": 4, "found": [7], "measured": True},
    }
    assert (found.failed_step, found.restored_step, found.lost_steps) == (41, 40, 1)
    assert (found.downtime_seconds, found.deviations) == (
        2.5,
        ["BatchNorm", "not in force"],
    )
    assert found.memory is not None
    assert found.memory["limit_bytes"] == 600
    assert ledger.incidents(incident=found.id) == ledger.incidents(run=run.id)
    assert ledger.incidents(job="other") == []
    counted = {(Cause.DEVICE_OOM, RemedyKind.MICROBATCH): 1}
    assert ledger.counts("digits") == counted


def test_half_of_a_surrogate_pair_is_text_too(ledger: Ledger) -> None:
    """What a script says may hold anything, and is read as it was written."""
    run, half = begin(ledger), "it said \ud800"
    diagnosis = Diagnosis(cause=Cause.UNKNOWN, because=(Reason(half, "log"),))
    ledger.record_incident(run.id, replace(incident(), diagnosis=diagnosis), now=0.0)
    ledger.update_incident(run.id, UpdateIncident(attempt=1, deviations=(half,)))
    unpromised = Unpromised(fit=0, because=half)
    attempt = AttemptHistory(number=1, unpromised=unpromised)
    ledger.put_attempt(run.id, attempt, now=0.0)
    (found,) = ledger.incidents()
    shown = "it said \ufffd"  # what is quoted can be shown everywhere
    assert (found.because[0]["text"], found.deviations) == (shown, [half])
    assert ledger.attempts(run.id) == (attempt,)


def test_an_attempt_may_end_after_it_could_not_save(ledger: Ledger) -> None:
    """Each kind has its own incident; what becomes of the end is added to the end, and
    only ends count as failures."""
    run = begin(ledger)
    unsaved = replace(incident(), happened=IncidentKind.UNSAVED_ON_DISK)
    for effect in (unsaved, unsaved, incident()):
        ledger.record_incident(run.id, effect, now=0.0)
    ledger.update_incident(run.id, UpdateIncident(attempt=1, slices=7, lost_steps=1))
    found = {item.happened: item for item in ledger.incidents(run=run.id)}
    assert set(found) == {"ended", "unsaved_on_disk"}
    assert found["ended"].lost_steps == 1
    assert found["unsaved_on_disk"].lost_steps is None
    assert found["unsaved_on_disk"].remedy["changes"] == {"slices": [1, 4]}
    assert ledger.counts("digits").total() == 1


def test_incidents_of_the_first_schema_are_ends(tmp_path: Path) -> None:
    """A ledger that an earlier version wrote is taken over with all it says; who only
    reads sees the same, and changes nothing."""
    path = tmp_path / "ledger.sqlite"
    old = sqlite3.connect(path)
    old.executescript(MIGRATIONS[0])
    old.execute("PRAGMA user_version=1")
    old.execute(
        "INSERT INTO runs (run_id, job, number, script, script_hash, seed, spec, state,"
        " began_at) VALUES ('a', 'digits', 1, 's', 'h', 1, '{}', 'finished', 1.0)"
    )
    old.execute(
        "INSERT INTO incidents (id, run, attempt, at, cause, because, advice, remedy,"
        " lost_steps) VALUES (4, 1, 2, 0.0, 'unknown', '[]', '', '{}', 3)"
    )
    old.commit()
    old.close()
    before = path.read_bytes()
    (seen,) = Ledger(path, read_only=True).incidents()
    assert path.read_bytes() == before
    (found,) = Ledger(path).incidents()
    assert seen == found
    assert (found.id, found.attempt, found.happened, found.lost_steps) == (
        4,
        2,
        "ended",
        3,
    )


def test_a_forgotten_job(ledger: Ledger) -> None:
    """It is on no list; the next of its name is another, with a count of its own and
    another place for its files."""
    run = begin(ledger)
    other = begin(ledger, "other")
    ledger.record_incident(run.id, incident(), now=1.0)
    assert ledger.forget("digits", now=2.0)
    assert not ledger.forget("digits", now=3.0)
    assert [one.id for one in ledger.latest_runs()] == [other.id]
    assert ledger.latest_run("digits") is None
    assert len(ledger.incidents(job="digits")) == 1
    assert begin(ledger).number == 2
    assert ledger.counts("digits").total() == 0


def test_two_connections_see_each_other(tmp_path: Path) -> None:
    """A foreground run writes while ``status`` reads."""
    writer = Ledger(tmp_path / "ledger.sqlite")
    begin(writer)
    reader = Ledger(tmp_path / "ledger.sqlite", read_only=True)
    assert len(reader.latest_runs()) == 1
    begin(writer, "other")
    assert len(reader.latest_runs()) == 2
    with pytest.raises(LedgerError, match="readonly"):
        begin(reader, "third")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A downgrade does not touch what it cannot understand."""
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(LedgerError, match="newer version"):
        Ledger(path)


def test_what_is_no_ledger(tmp_path: Path) -> None:
    """A file of another kind is told in a sentence."""
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(path)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(tmp_path / "missing" / "ledger.sqlite", read_only=True)


def test_a_process_may_recover_more_than_once(ledger: Ledger) -> None:
    """Each failure that it went on after is an incident of its own, beside its end; what
    becomes of one belongs to it alone. Together they are the failures of the job."""
    run = begin(ledger)
    went_on = replace(incident(), happened=IncidentKind.RECOVERED)
    for number in (1, 2):
        ledger.record_incident(run.id, replace(went_on, recovery=number), now=1.0)
    ledger.record_incident(run.id, replace(went_on, recovery=2), now=2.0)
    ledger.record_incident(run.id, incident(), now=3.0)
    update = UpdateIncident(
        attempt=1, recovery=2, restored_step=5, lost_steps=1, slices=8, note="noted"
    )
    ledger.update_incident(run.id, update)
    found = ledger.incidents()
    assert [(one.happened, one.recovery) for one in found] == [
        ("recovered", 1),
        ("recovered", 2),
        ("ended", 0),
    ]
    assert [one.lost_steps for one in found] == [None, 1, None]
    assert [one.deviations for one in found] == [[], ["noted"], []]
    assert [one.remedy["changes"]["slices"][1] for one in found] == [4, 8, 4]
    assert ledger.counts(run.job) == {(Cause.DEVICE_OOM, RemedyKind.MICROBATCH): 3}


def test_what_an_attempt_recovered_from_is_kept(ledger: Ledger) -> None:
    """As it was told."""
    run = begin(ledger)
    attempt = AttemptHistory(number=1, last_step=9)
    ended = replace(attempt, cause=Cause.DEVICE_OOM, recovery=1, last_step=4)
    attempt = attempt.went_on(ended, overrides=Overrides(growth=True))
    ledger.put_attempt(run.id, attempt, now=1.0)
    assert ledger.attempts(run.id) == (attempt,)
