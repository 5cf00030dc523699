"""A snapshot that could not be saved is an incident, once, and training goes on."""

from dataclasses import asdict, replace

import pytest

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.explain import explain_incident, summarise_incident
from supervisor.core.diagnosis.result import IncidentKind, RemedyKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import (
    Effect,
    RecordIncident,
    ReviseAdvice,
    Say,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DiskRoom,
    DrainRequested,
    Event,
    GateClear,
    NoticeReceived,
    ProgressReported,
    SnapshotFailed,
    Spawned,
)
from supervisor.core.lifecycle.live_incidents import (
    ON_DISK,
    ON_DISK_AGAIN,
    incident_of,
)
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.lifecycle.table import step
from supervisor.core.remediation.policy import Policy

FULL = SnapshotFailed(
    in_memory=False, step=30, because="No space left on device", no_room=True
)
BROKEN = replace(FULL, because="Input/output error", no_room=False)
SMALL = replace(FULL, in_memory=True, because="two snapshots need 9 MiB")


def running() -> RunState:
    """A run in its first attempt."""
    policy = Policy(
        run_id="r",
        without_progress=3,
        back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
    )
    run = RunState(policy=policy, grace_seconds=60.0)
    for event in (DeadlineExpired(), GateClear(), Spawned(7)):
        run, _ = step(run, event, now=0.0)
    return run


def happen(run: RunState, *events: Event) -> tuple[RunState, list[Effect]]:
    """``run`` after ``events``, and what is to be done."""
    effects: list[Effect] = []
    for event in events:
        run, done = step(run, event, now=1.0)
        effects += done
    return run, effects


def test_it_is_recorded_once_for_each_tier_of_an_attempt() -> None:
    """A full disk fails at every interval; the run stays as it is."""
    run, effects = happen(running(), FULL, FULL, SMALL, BROKEN, SMALL)
    assert run.state is JobState.RUNNING
    records = [effect for effect in effects if isinstance(effect, RecordIncident)]
    assert len(records) == len(effects) == 2
    assert [r.happened for r in records] == [
        IncidentKind.UNSAVED_ON_DISK,
        IncidentKind.UNSAVED_IN_MEMORY,
    ]
    assert {r.remedy.kind for r in records} == {RemedyKind.GO_ON}
    assert {r.failed_step for r in records} == {30}


def test_the_next_attempt_has_its_own() -> None:
    """What is wrong with the disk may still be."""
    run, _ = happen(running(), FULL)
    again = replace(run, phase=RunPhase.WAITING)
    _, effects = happen(again, GateClear(), Spawned(8), FULL)
    assert [type(effect) for effect in effects].count(RecordIncident) == 1


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (DiskRoom(directory="/s", free_bytes=2048, held_bytes=0), "In /s: 2 KiB free."),
        (
            DiskRoom(directory="/s", free_bytes=None, held_bytes=1 << 20),
            "In /s: what is free is not known, and snapshots of this run hold 1 MiB.",
        ),
    ],
)
def test_the_room_on_disk_is_kept_with_it(room: DiskRoom, said: str) -> None:
    """It is another when somebody looks; why it failed stays the first reason."""
    record = incident_of(replace(FULL, room=room), attempt=1)
    assert [one.text for one in record.diagnosis.because] == [FULL.because, said]


def saved(number: int) -> ProgressReported:
    """A snapshot of step ``number`` is on disk."""
    return ProgressReported(snapshot_step=number)


def test_that_it_can_be_written_again_is_told_once() -> None:
    """The advice is put in the past where a newer snapshot is on disk, and back where
    the next one is not; a disk at its edge is told of once."""
    run, effects = happen(running(), saved(20), FULL, saved(40), saved(50))
    assert effects[1:] == [
        ReviseAdvice(
            happened=IncidentKind.UNSAVED_ON_DISK, advice=ON_DISK_AGAIN.format(40)
        ),
        Say(
            "the state directory can be written again: a snapshot of step 40 is on disk"
        ),
    ]
    run, effects = happen(run, SMALL, FULL, FULL, saved(80), saved(90))
    advice = [one.advice for one in effects if isinstance(one, ReviseAdvice)]
    assert advice == [ON_DISK, ON_DISK_AGAIN.format(80)]
    assert not [one for one in effects if isinstance(one, Say)]


def test_the_next_attempt_tells_that_it_can_be_written_again() -> None:
    """It was still full when the attempt crashed that met it."""
    run, _ = happen(running(), FULL)
    again = replace(run, phase=RunPhase.WAITING)
    _, effects = happen(again, GateClear(), Spawned(8), saved(40))
    assert [one for one in effects if isinstance(one, ReviseAdvice)]


def test_it_is_told_while_draining_too() -> None:
    """The last snapshot of all is the one that matters most."""
    _, effects = happen(
        running(), DrainRequested("SIGTERM"), BROKEN, NoticeReceived("so")
    )
    assert isinstance(effects[-2], RecordIncident)
    assert effects[-1] == Say("so")


@pytest.mark.parametrize(
    ("event", "cause", "headline"),
    [
        (FULL, Cause.DISK_FULL, "could not be written to disk"),
        (BROKEN, Cause.UNKNOWN, "could not be written to disk"),
        (SMALL, Cause.DISK_FULL, "could not be kept in memory"),
    ],
)
def test_it_is_explained_as_what_it_is(
    event: SnapshotFailed, cause: Cause, headline: str
) -> None:
    """No end, no restart: the reason in its own words, and that training goes on."""
    record = incident_of(event, attempt=2)
    stored = {
        **asdict(record), "id": 1, "job": "digits", "at": "2026-01-31T12:00:00+00:00",
        "cause": record.diagnosis.cause, "advice": record.diagnosis.advice,
        "because": [asdict(reason) for reason in record.diagnosis.because],
        "restored_step": None, "lost_steps": None, "downtime_seconds": None,
        "memory": None, "deviations": [],
    }  # fmt: skip
    assert stored["cause"] is cause
    text = " ".join(explain_incident(stored).split())
    assert "trained on after step 30, but a snapshot" in text
    assert "ended" not in text.partition(".")[0]
    assert headline in text
    assert event.because in text
    assert summarise_incident(stored).endswith("→ training went on")
