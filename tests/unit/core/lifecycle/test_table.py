"""The life of a run: every rule of the table's own docstring."""

from dataclasses import replace
from typing import get_type_hints

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import (
    ADVICE,
    OUT_OF_REMEDIES,
    advice_at_the_end,
)
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import (
    AskDrain,
    CheckGate,
    Effect,
    End,
    Kill,
    Launch,
    RecordIncident,
    Say,
    UpdateIncident,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    ProgressReported,
    RestartDue,
    Spawned,
    SpawnFailed,
)
from supervisor.core.lifecycle.run_state import RunPhase, Transition
from supervisor.core.lifecycle.table import LAUNCHES, TABLE, diagram
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import format_duration
from supervisor.wire.records.end_records import CrashReport
from tests.support.lives import (
    drained,
    exit_record,
    finished,
    fresh,
    happen,
    killed,
    kinds,
    out_of_memory,
    running,
)


def test_from_start_to_finish() -> None:
    """The gate is checked, one attempt is launched, and its clean end is the run's."""
    run, effects = running(finished())
    assert kinds(effects) == [CheckGate, Launch, End]
    assert effects[-1] == End(0)
    assert run.state is JobState.FINISHED


def test_what_is_taken_over_is_not_started() -> None:
    """An attempt that an earlier supervisor started is told as what it is; also where
    it is to end."""
    run, _ = happen(fresh(), DeadlineExpired(), GateClear())
    said = Say("attempt 1 still runs: taken over, pid 7")
    assert happen(run, Spawned(7, taken_over=True))[1] == [said]
    ending, _ = happen(run, DrainRequested("SIGTERM"))
    _, effects = happen(ending, Spawned(7, taken_over=True))
    assert effects[0] == said
    assert AskDrain() in effects


def test_what_cannot_be_started_again_has_lost_the_time_until_then() -> None:
    """The run gives up, and its last incident tells since when nothing was trained."""
    run, _ = running(killed())
    lasting = SpawnFailed("no such interpreter", lasting=True)
    run, effects = happen(run, DeadlineExpired(), GateClear(), lasting, now=130.0)
    assert run.state is JobState.GAVE_UP
    assert UpdateIncident(attempt=1, downtime_seconds=30.0) in effects


def test_a_held_gate_is_looked_at_again_and_told_once() -> None:
    """While something is left of the last attempt no other starts."""
    run, effects = happen(
        fresh(),
        DeadlineExpired(),
        GateHeld("pid 5"),
        DeadlineExpired(),
        GateHeld("pid 5"),
    )
    assert run.state is JobState.WAITING
    assert run.deadline == 102.0  # the second look waits twice as long
    assert kinds(effects) == [CheckGate, CheckGate]
    assert effects.count(Say("waiting: pid 5")) == 1


def test_a_crash_is_an_incident_and_another_attempt() -> None:
    """After a kill the same computation goes on, in a new attempt."""
    run, effects = running(ProgressReported(batch=32), killed())
    assert run.state is JobState.WAITING
    incident = effects[-2]
    assert isinstance(incident, RecordIncident)
    assert (incident.attempt, incident.failed_step) == (1, 10)
    assert incident.remedy.kind is RemedyKind.RESTART
    run, effects = happen(run, DeadlineExpired(), GateClear())
    assert effects[-1] == Launch(number=2, overrides=NOTHING)


def test_an_incident_is_completed_by_the_next_attempt() -> None:
    """What was lost is known once the next attempt has restored and made a step."""
    run, _ = running(killed(last=10))
    run, effects = happen(
        run,
        DeadlineExpired(),
        GateClear(),
        Spawned(8),
        ProgressReported(restored_step=8),
        now=103.0,
    )
    assert effects[-1] == UpdateIncident(attempt=1, restored_step=8, lost_steps=2)
    run, effects = happen(
        run, ProgressReported(batch=4), ProgressReported(first_step=9), now=107.0
    )
    assert effects == [
        UpdateIncident(attempt=1, restored_step=8, lost_steps=2, downtime_seconds=7.0)
    ]
    assert run.open_incident is None
    assert happen(run, ProgressReported(first_step=10))[1] == []


def test_steps_of_a_loop_that_is_not_saved_are_all_done_again() -> None:
    """The script begins anew, whose loop is counted: from its first step on it makes up for
    what was lost, and the time until then was the incident's."""
    run, _ = running(killed(last=75, snapshot=0))
    again = (DeadlineExpired(), GateClear(), Spawned(8))
    run, effects = happen(run, *again, ProgressReported(own_step=True), now=107.0)
    assert effects[-1] == UpdateIncident(
        attempt=1, restored_step=0, lost_steps=75, downtime_seconds=7.0
    )
    assert run.open_incident is None
    assert run.history.last is not None
    assert (
        run.history.last.restored_step is None
    )  # nothing that a restart could go on from


def test_a_loop_before_a_fit_that_is_restored_does_nothing_again() -> None:
    """A warm-up, say: where the fit goes on is what was lost."""
    run, _ = running(killed(last=10, snapshot=8))
    again = (
        DeadlineExpired(),
        GateClear(),
        Spawned(8),
    )
    run, effects = happen(run, *again, ProgressReported(own_step=True), now=107.0)
    assert not [one for one in effects if isinstance(one, UpdateIncident)]
    restored = ProgressReported(restored_step=8)
    run, effects = happen(run, restored, ProgressReported(first_step=9), now=109.0)
    assert effects[-1] == UpdateIncident(
        attempt=1, restored_step=8, lost_steps=2, downtime_seconds=9.0
    )


@pytest.mark.parametrize(
    ("last", "saved", "said"),
    [
        (
            80,
            33,
            "; a resume goes on from the snapshot at step 33, and does 47 steps again",
        ),
        (33, 33, "; a resume goes on from the snapshot at step 33"),
        (10, 0, "; nothing is saved: the script would run from its top"),
        (None, 0, ""),
    ],
)
def test_who_ends_a_run_between_two_attempts_is_told_where_a_resume_goes_on(
    last: int | None, saved: int, said: str
) -> None:
    """Nothing can be saved any more then."""
    run, _ = running(killed(last=last, snapshot=saved))
    _, effects = happen(run, DrainRequested("SIGTERM"))
    message = f"SIGTERM: ended between two attempts{said}"
    assert Say(message) in effects


def test_what_a_person_lets_go_on_loses_steps_and_no_time() -> None:
    """The run had ended by its newest incident: what was done since the snapshot is done
    again, and nobody can say that the night until then was lost."""
    run, _ = running(killed(last=10))
    assert run.open_incident is not None
    by_hand = replace(run, open_incident=replace(run.open_incident, at=None))
    again = (DeadlineExpired(), GateClear(), Spawned(8))
    going, _ = happen(by_hand, *again, ProgressReported(restored_step=8))
    going, effects = happen(going, ProgressReported(first_step=9), now=900.0)
    assert effects == [UpdateIncident(attempt=1, restored_step=8, lost_steps=2)]
    assert going.open_incident is None
    ended, effects = happen(by_hand, DrainRequested("a person"), now=900.0)
    assert not [one for one in effects if isinstance(one, UpdateIncident)]
    assert ended.open_incident is None


def test_the_time_of_attempts_that_came_to_no_step_is_lost_too() -> None:
    """In a loop of crashes nothing is trained: each incident has what passed up to the
    next, and together they have all of it."""
    run, effects = running(killed(last=None))
    spent: list[float] = []
    for number in range(1, 3):
        again = (DeadlineExpired(), GateClear(), Spawned(8))
        run, _ = happen(run, *again, now=100.0 + 10 * number)
        run, effects = happen(run, killed(last=None), now=105.0 + 10 * number)
        (update,) = [one for one in effects if isinstance(one, UpdateIncident)]
        assert (update.attempt, update.restored_step) == (number, None)
        assert effects.index(update) < kinds(effects).index(RecordIncident)
        spent.append(update.downtime_seconds or 0.0)
    assert spent == [15.0, 10.0]
    run, effects = happen(run, DrainRequested("a person"), now=130.0)
    assert effects[0] == UpdateIncident(attempt=3, downtime_seconds=5.0)
    assert run.open_incident is None


def test_the_time_without_a_step_begins_before_the_process_ends() -> None:
    """It waited for memory, and found what held it: nobody trained in that time. The
    incidents of two attempts meet, whatever the second took for itself."""
    end = replace(killed(last=None), idle_seconds=20.0)
    run, _ = happen(running()[0], end, now=100.0)
    again = (DeadlineExpired(), GateClear(), Spawned(8))
    run, _ = happen(run, *again, now=101.0)
    run, effects = happen(run, replace(end, idle_seconds=9.0), now=110.0)
    (update,) = [one for one in effects if isinstance(one, UpdateIncident)]
    assert (update.attempt, update.downtime_seconds) == (1, 21.0)
    run, _ = happen(run, *again, now=111.0)
    run, effects = happen(run, ProgressReported(first_step=1), now=115.0)
    update = [one for one in effects if isinstance(one, UpdateIncident)][-1]
    assert (update.attempt, update.downtime_seconds) == (2, 14.0)


def test_an_attempt_that_ends_as_it_was_asked_to_is_lost_to_the_last_failure() -> None:
    """It made no step either, and begins no incident that could have its time."""
    run, _ = happen(running()[0], killed(), now=100.0)
    begun = (DeadlineExpired(), GateClear(), Spawned(8), DrainRequested("a person"))
    run, _ = happen(run, *begun, now=101.0)
    _, effects = happen(run, replace(drained(), idle_seconds=9.0), now=110.0)
    (update,) = [one for one in effects if isinstance(one, UpdateIncident)]
    assert (update.attempt, update.downtime_seconds) == (1, 10.0)


def test_a_run_that_gives_up_tells_what_its_last_attempt_took() -> None:
    """Nothing follows that could close its incident."""
    evidence = Evidence(
        exit=exit_record(code=1),
        crash=CrashReport(
            exception="ValueError",
            message="no such column",
            traceback="",
            steps_done=0,
            in_fit=True,
        ),
    )
    end = Exited(evidence=evidence, last_step=None, snapshot_step=0, idle_seconds=7.0)
    run, effects = running(end)
    assert run.state is JobState.GAVE_UP
    assert UpdateIncident(attempt=1, downtime_seconds=7.0) in effects
    last = run.history.last
    assert last is not None
    assert last.error == "ValueError: no such column"


def test_without_a_snapshot_all_steps_are_lost() -> None:
    """An attempt that makes its first step without restoring began at zero."""
    run, _ = running(killed(last=10, snapshot=0))
    _, effects = happen(
        run,
        DeadlineExpired(),
        GateClear(),
        Spawned(8),
        ProgressReported(first_step=1),
        now=101.0,
    )
    update = effects[-1]
    assert isinstance(update, UpdateIncident)
    assert (update.restored_step, update.lost_steps) == (0, 10)


def test_how_much_was_lost_can_stay_unknown() -> None:
    """Without a page nobody knows where the attempt was; no number is made up."""
    run, _ = running(killed(last=None))
    _, effects = happen(
        run,
        DeadlineExpired(),
        GateClear(),
        Spawned(8),
        ProgressReported(deviations=("BatchNorm",)),
    )
    update = effects[-1]
    assert isinstance(update, UpdateIncident)
    assert (update.restored_step, update.lost_steps) == (None, None)
    assert update.deviations == ("BatchNorm",)


def test_news_before_any_attempt_changes_nothing() -> None:
    """A run that adopts a dead attempt may hear of it before it has a history."""
    run = replace(fresh(), phase=RunPhase.RUNNING)
    assert happen(run, ProgressReported(first_step=1, batch=3)) == (run, [])


def test_advice_at_the_end_names_nothing_that_was_tried() -> None:
    """Slices were tried before the run was given up: what is advised then is another."""
    run, effects = running(ProgressReported(batch=512), out_of_memory())
    run = replace(run, policy=replace(run.policy, without_progress=1))
    record = next(one for one in effects if isinstance(one, RecordIncident))
    assert record.diagnosis.advice == ADVICE[Cause.DEVICE_OOM]
    run, effects = happen(
        run, DeadlineExpired(), GateClear(), Spawned(8), out_of_memory()
    )
    record = next(one for one in effects if isinstance(one, RecordIncident))
    assert record.remedy.kind is RemedyKind.STOP
    assert record.diagnosis.advice == OUT_OF_REMEDIES
    usual = ADVICE[Cause.DEVICE_OOM]
    assert advice_at_the_end(Cause.DEVICE_OOM, usual, sliced=False) == usual


def test_out_of_memory_leads_to_slices() -> None:
    """The batch stays; the slice shrinks below what failed."""
    run, effects = running(ProgressReported(batch=512), out_of_memory())
    record = effects[-2]
    assert isinstance(record, RecordIncident)
    assert record.diagnosis.cause is Cause.DEVICE_OOM
    assert record.remedy.kind is RemedyKind.MICROBATCH
    _, effects = happen(run, DeadlineExpired(), GateClear())
    launch = effects[-1]
    assert isinstance(launch, Launch)
    assert launch.overrides.plan is not None
    assert launch.overrides.plan.ceiling is not None
    assert launch.overrides.plan.ceiling <= 512


def test_what_was_measured_once_is_not_measured_again() -> None:
    """A kill after the slice was settled goes on with that slice at once."""
    run, _ = running(ProgressReported(batch=512), out_of_memory())
    run, told = happen(
        run,
        DeadlineExpired(),
        GateClear(),
        Spawned(2),
        ProgressReported(batch=512, slices=32, slice_size=16),
        ProgressReported(batch=512, slices=4, slice_size=128, measured=True),
        killed(),
        DeadlineExpired(),
    )
    assert UpdateIncident(attempt=1, slices=4) in told
    _, effects = happen(run, GateClear())
    launch = effects[-1]
    assert isinstance(launch, Launch)
    assert launch.overrides.plan is not None
    assert (launch.overrides.plan.slice_size, launch.overrides.plan.slices) == (128, 4)
    assert not launch.overrides.plan.calibrate


def test_slices_that_cannot_be_measured_are_told_all_the_same() -> None:
    """The incident says how many there are, once the attempt has said so; not which of
    them it tried."""
    run, _ = running(ProgressReported(batch=512), out_of_memory())
    begun = (DeadlineExpired(), GateClear(), Spawned(2))
    tried = ProgressReported(batch=512, slices=32, slice_size=16, trial=True)
    run, told = happen(run, *begun, tried)
    assert not [one for one in told if isinstance(one, UpdateIncident)]
    halved = ProgressReported(batch=512, slices=2, slice_size=256)
    _, told = happen(run, halved)
    assert told == [UpdateIncident(attempt=1, slices=2, slices_measured=False)]


def test_draining() -> None:
    """A request to end asks, waits, and only then kills."""
    run, effects = running(DrainRequested("SIGTERM"))
    assert kinds(effects)[-1] is AskDrain
    assert (run.state, run.deadline) == (JobState.DRAINING, 160.0)
    done, effects = happen(run, drained())
    assert (done.state, effects[-1]) == (JobState.DRAINED, End(75))
    killing, effects = happen(run, DeadlineExpired())
    assert (killing.state, kinds(effects)) == (JobState.KILLING, [Kill])
    killing, effects = happen(killing, DeadlineExpired(), DeadlineExpired())
    assert [type(effect) for effect in effects] == [Say, Kill, Kill]
    ended, effects = happen(killing, killed())
    assert (ended.state, effects[-1]) == (JobState.DRAINED, End(75))


def test_asking_twice_ends_at_once() -> None:
    """The second Ctrl-C does not wait for a snapshot."""
    run, effects = running(DrainRequested("Ctrl-C"), DrainRequested("Ctrl-C"))
    assert run.state is JobState.KILLING
    assert kinds(effects)[-1] is Kill


def test_a_scheduler_that_asks_again_asks_for_the_same() -> None:
    """Slurm sends SIGTERM several times for one requeue: the snapshot is waited for, until
    the grace of the first is over, or a person presses Ctrl-C."""
    asked = DrainRequested("SIGTERM", repeats=True)
    once, _ = running(asked)
    again, effects = happen(once, asked, asked)
    assert (again, effects) == (once, [])
    assert happen(again, drained())[0].state is JobState.DRAINED
    assert happen(again, DeadlineExpired())[0].state is JobState.KILLING
    assert happen(again, DrainRequested("Ctrl-C"))[0].state is JobState.KILLING
    now = DrainRequested("SIGTERM", at_once=True, repeats=True)
    assert happen(again, now)[0].state is JobState.KILLING


def test_what_ends_at_once_asks_for_nothing() -> None:
    """Neither of a run, nor of one that is saving: it is killed, and has ended."""
    now = DrainRequested("a request of ada", at_once=True)
    for before in ((), (DrainRequested("SIGTERM"),), (RestartDue("memory grows"),)):
        run, _ = running(*before)
        run, effects = happen(run, now)
        assert run.state is JobState.KILLING
        assert [type(effect) for effect in effects] == [Say, Kill]
        ended, effects = happen(run, killed())
        assert (ended.state, effects[-1]) == (JobState.DRAINED, End(75))
        assert ended.message == "ended at step 10; the newest snapshot: 8"
        assert not [one for one in effects if isinstance(one, RecordIncident)]


@pytest.mark.parametrize(
    ("last", "saved", "told"),
    [
        (None, None, "ended before the first step"),
        (None, 8, "ended before the first step"),
        (8, 8, "ended at step 8; the newest snapshot: 8"),
        (10, 8, None),
        (10, None, None),
    ],
)
def test_an_end_that_was_asked_for_is_an_incident_where_it_lost_something(
    last: int | None, saved: int | None, told: str | None
) -> None:
    """As where the time to save ran out; not where there was nothing to save yet."""
    run, _ = running(DrainRequested("SIGTERM"), DeadlineExpired())
    run, effects = happen(run, killed(last, saved))
    assert run.state is JobState.DRAINED
    assert told in {None, run.message}
    recorded = [one for one in effects if isinstance(one, RecordIncident)]
    assert len(recorded) == (told is None)


@pytest.mark.parametrize("asked", [DrainRequested("stop"), RestartDue("memory grows")])
def test_who_is_killed_when_the_grace_is_over_was_killed_by_us(asked: Event) -> None:
    """Nobody outside did that; who asked for the end is told of the newest snapshot."""
    run, _ = running(asked, DeadlineExpired())
    _, effects = happen(run, killed(10, 8))
    (record,) = [one for one in effects if isinstance(one, RecordIncident)]
    grace = format_duration(run.grace_seconds)
    told = f"saved nothing within {grace}, so Trainwarden ended it."
    assert record.diagnosis.because[0].text.endswith(told)
    assert "drain.grace" in record.diagnosis.advice
    assert ("snapshot is of step 8" in record.remedy.because) == (
        asked == DrainRequested("stop")
    )


def test_what_is_given_up_at_once_may_never_have_been_saved() -> None:
    """That is said too."""
    run, _ = running(DrainRequested("a request of ada", at_once=True))
    run, _ = happen(run, killed(10, None))
    assert run.message == "ended at step 10; there is no snapshot"


def test_a_drain_between_attempts() -> None:
    """While nothing runs, everything is saved already."""
    run, effects = happen(fresh(), DrainRequested("SIGTERM"))
    assert (run.state, effects[-1]) == (JobState.DRAINED, End(75))


def test_a_drain_while_an_attempt_is_being_started() -> None:
    """A request that comes too early is not forgotten."""
    run, _ = happen(fresh(), DeadlineExpired(), GateClear(), DrainRequested("SIGTERM"))
    assert run.state is JobState.LAUNCHING
    run, effects = happen(run, Spawned(3))
    assert run.state is JobState.DRAINING
    assert AskDrain() in effects


def test_a_crash_while_draining_is_told_and_not_restarted() -> None:
    """Whoever asked for the end gets it, and the crash is written down."""
    run, effects = running(DrainRequested("SIGTERM"), out_of_memory())
    assert run.state is JobState.DRAINED
    assert RecordIncident in kinds(effects)
    assert effects[-1] == End(75)


def test_training_that_drained_by_itself_is_not_restarted() -> None:
    """A SIGTERM straight to training (Slurm, say) ends the run with 75 as well."""
    run, effects = running(drained())
    assert (run.state, effects[-1]) == (JobState.DRAINED, End(75))
    assert run.message == "drained at step 12"
    unsaved = replace(drained(), snapshot_step=0)
    assert running(unsaved)[0].message == "drained at step 12; nothing is saved"
    early = replace(drained(), last_step=None)
    assert running(early)[0].message == "drained before the first step"


def test_a_launch_that_failed_is_tried_again_later_and_later() -> None:
    """Systemd is busy, a disk is full, the machine shuts down: that passes by. A run that
    cannot be started for ten minutes gives up, and says why."""
    run, waits, now = fresh(), list[float](), 0.0
    effects: list[Effect] = []
    while not run.state.ended:
        run, effects = happen(
            run, DeadlineExpired(), GateClear(), SpawnFailed("no memory"), now=now
        )
        waits += [] if run.deadline is None else [run.deadline - now]
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, *[60.0] * (LAUNCHES - 7)]
    assert sum(waits) >= 540.0
    assert (run.state, run.attempt) == (JobState.GAVE_UP, LAUNCHES)
    assert run.message == (
        f"gave up: attempts could not be started, {LAUNCHES} times in a row: no memory"
    )
    assert effects[-2:] == [Say(run.message, LogLevel.ERROR), End(1)]


def test_an_attempt_that_starts_ends_the_row_of_launches_that_failed() -> None:
    """And they spend nothing of the budget of failures."""
    launched = (DeadlineExpired(), GateClear())
    failed = (*launched, SpawnFailed("busy")) * (LAUNCHES - 1)
    run, _ = happen(fresh(), *failed, *launched, Spawned(1), killed(5, 0), *failed)
    assert run.state is JobState.WAITING
    assert run.history.fruitless() == run.history.unknown() == 0
    run, effects = happen(run, *launched)
    assert effects[-1] == Launch(number=2 * LAUNCHES, overrides=NOTHING)


def test_a_launch_that_can_never_succeed() -> None:
    """Its user has no unit, say: that is no reason to try for ten minutes."""
    failed = SpawnFailed("no unit", lasting=True)
    run, effects = happen(fresh(), DeadlineExpired(), GateClear(), failed)
    assert (run.state, effects[-1]) == (JobState.GAVE_UP, End(1))
    assert run.message == "gave up: attempts could not be started: no unit"


def test_a_drain_while_a_launch_fails() -> None:
    """Whoever asked for the end gets it."""
    asked = DrainRequested("SIGTERM")
    run, effects = happen(
        fresh(), DeadlineExpired(), GateClear(), asked, SpawnFailed("no memory")
    )
    assert (run.state, effects[-1]) == (JobState.DRAINED, End(75))


def test_the_diagram_shows_every_state() -> None:
    """The picture in the documents is the table."""
    text = diagram()
    states = {row.source for row in TABLE.values()}
    states |= {target for row in TABLE.values() for target in row.targets}
    assert all(f"{state}" in text for state in states)
    assert text.startswith("stateDiagram-v2\n    [*] --> waiting\n")


@pytest.mark.parametrize("row", TABLE.values(), ids=map(str, range(len(TABLE))))
def test_a_handler_takes_the_event_of_its_row(row: Transition) -> None:
    """The table alone decides what a handler is called with."""
    taken = get_type_hints(row.act)
    names = [name for name in taken if name.endswith("event")]
    assert taken[names[0]] in {row.event, Event}
