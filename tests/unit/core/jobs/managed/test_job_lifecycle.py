"""The life of a managed job: every rule of the table's own docstring."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.managed.job_events import (
    Announce,
    Decline,
    EndRun,
    ForgetRequested,
    JobEffect,
    JobEvent,
    NoteStarted,
    RestartRequested,
    RunAdopted,
    RunEnded,
    RunStarted,
    RunTroubled,
    StartDenied,
    StartPostponed,
    StartRequested,
    StopRequested,
    SubmitRequested,
    TurnAwaited,
)
from supervisor.core.jobs.managed.job_lifecycle import RETRY_SECONDS_MOST, TABLE, step
from supervisor.core.jobs.managed.job_phase import (
    ORPHANS,
    SERIES_SECONDS,
    SUPERVISED,
    WAITS,
    JobLifecycle,
    JobPhase,
    never_begun,
    orphaned,
    recalled,
)
from supervisor.core.text.log_level import LogLevel

P = JobPhase
NEW = JobLifecycle(job="job")


def ended(state: JobState = JobState.FINISHED) -> JobStatus:
    """How a run ended."""
    return JobStatus(job="job", state=state, attempt=1, message="so")


def happen(
    job: JobLifecycle, *events: JobEvent
) -> tuple[JobLifecycle, tuple[JobEffect, ...]]:
    """One after the other; the effects of all."""
    done: tuple[JobEffect, ...] = ()
    for event in events:
        job, effects = step(job, event, now=100.0)
        done += effects
    return job, done


EVENTS = st.sampled_from([
    SubmitRequested(), StartRequested(), StartRequested(fresh=True),
    StopRequested("me"), StopRequested("me", at_once=True), RestartRequested("me"),
    ForgetRequested(), TurnAwaited("busy"), RunStarted(("GPU-1",)),
    RunAdopted(trains=True), RunAdopted(trains=False), StartPostponed("full"),
    StartDenied("changed"), RunTroubled("full"), RunEnded(ended()),
    RunEnded(ended(JobState.DRAINED)), RunEnded(ended(JobState.GAVE_UP)),
    RunEnded(ended(JobState.GAVE_UP), another_turn=True),
])  # fmt: skip
BEGINNINGS = st.sampled_from(
    [
        NEW,
        recalled("job", wanted=False),
        recalled("job", wanted=True, ended=ended()),
        *(replace(NEW, phase=phase, gpus=("GPU-1",)) for phase in ORPHANS),
    ]
)


@given(BEGINNINGS, st.lists(EVENTS, max_size=20))
def test_whatever_happens(job: JobLifecycle, events: list[JobEvent]) -> None:
    """The table leads where it says; what is declined changes nothing; a run is asked to
    end only while it is supervised; only active jobs hold GPUs; phase and end agree."""
    for event in events:
        after, effects = step(job, event, now=1.0)
        row = TABLE.get((job.phase, type(event)))
        assert after.phase in (row.targets if row else {job.phase})
        if any(isinstance(effect, Decline) for effect in effects):
            assert (after, len(effects)) == (job, 1)
        if any(isinstance(effect, EndRun) for effect in effects):
            assert after.supervised
        assert after.active or after.gpus == ()
        if after.phase is P.FINISHED:
            assert after.idle_status().state is JobState.FINISHED
        job = after


@given(st.sampled_from(JobPhase), EVENTS)
def test_start_and_stop_in_any_phase(phase: JobPhase, event: JobEvent) -> None:
    """After a stop a job neither waits nor restarts; what people may ask has an answer in
    each phase of a job that exists."""
    job = replace(NEW, phase=phase)
    stopped, _ = happen(job, StopRequested("me"))
    assert stopped.phase not in {P.QUEUED, P.RUNNING, P.RESTARTING, P.ORPHANED}
    asked = SubmitRequested | StartRequested | RestartRequested | ForgetRequested
    if isinstance(event, asked) and phase is not P.FORGOTTEN:
        assert (phase, type(event)) in TABLE


FINISHED = Announce("finished, in 1 attempt")


def test_that_it_finished_is_told() -> None:
    """In the daemon's log as every other end: how far it came, and how often it began."""
    running, _ = happen(NEW, RunStarted(()))
    told = replace(ended(), step=4800, attempt=2)
    effects = happen(running, RunEnded(told))[1]
    assert effects == (Announce("finished at step 4800, in 2 attempts"),)


def test_from_the_queue_to_its_end() -> None:
    """It is noted that it began, before anything is launched; its GPUs are free then."""
    waiting, _ = happen(NEW, TurnAwaited("wants 1 GPUs, 0 are free"))
    assert waiting.idle_status().state is JobState.QUEUED
    assert waiting.idle_status().message == "wants 1 GPUs, 0 are free"
    running, effects = happen(waiting, RunStarted(("GPU-1",)))
    assert (running.phase, running.gpus) == (P.RUNNING, ("GPU-1",))
    assert effects == (NoteStarted(),)
    over, effects = happen(running, RunEnded(ended()))
    assert (over.phase, over.gpus, effects) == (P.FINISHED, (), (FINISHED,))
    assert over.idle_status() == ended()


@pytest.mark.parametrize("phase", [P.QUEUED, P.ORPHANED])
def test_what_was_counted_stays_while_nobody_looks_after_a_run(phase: JobPhase) -> None:
    """A counter that goes to 0 and comes back would be counted once more."""
    counted = replace(
        ended(), attempt=3, incidents={Cause.NON_FINITE_LOSS: 2}, loss=0.5
    )
    shown = replace(NEW, phase=phase, ended=counted, because="paused").idle_status()
    expected = JobState.QUEUED if phase is P.QUEUED else JobState.INTERRUPTED
    assert shown == replace(counted, state=expected, message="paused")


def test_a_drained_job_says_how_it_goes_on() -> None:
    """Nobody has to look that up; one that gave up says so itself."""
    running, _ = happen(NEW, RunStarted(()))
    stopping, effects = happen(running, StopRequested("me", at_once=True))
    assert (stopping.phase, effects) == (P.STOPPING, (EndRun("me", at_once=True),))
    over, effects = happen(stopping, RunEnded(ended(JobState.DRAINED)))
    assert over.phase is P.STOPPED
    assert effects == (Announce("`trainwarden start job` resumes it"),)
    assert happen(running, RunEnded(ended(JobState.GAVE_UP)))[1] == ()


def test_a_job_that_lost_a_gpu_takes_its_turn_again() -> None:
    """Unless it was to stop."""
    running, _ = happen(NEW, RunStarted(("GPU-1",)))
    gave_up = RunEnded(ended(JobState.GAVE_UP), another_turn=True)
    again, effects = happen(running, gave_up)
    assert (again.phase, again.gpus) == (P.QUEUED, ())
    assert effects == (Announce("takes its turn again, for another GPU"),)
    assert happen(running, StopRequested("me"), gave_up)[0].phase is P.STOPPED


def test_a_restart() -> None:
    """It ends to be queued again; who finished meanwhile has nothing left to do; a stop
    overrules it."""
    running, _ = happen(NEW, RunStarted(()))
    restarting, effects = happen(running, RestartRequested("me"))
    assert (restarting.phase, effects) == (P.RESTARTING, (EndRun("me"),))
    drained = RunEnded(ended(JobState.DRAINED))
    assert happen(restarting, drained)[0].phase is P.QUEUED
    finished, effects = happen(restarting, RunEnded(ended()))
    assert (finished.phase, effects) == (P.FINISHED, (NoteStarted(), FINISHED))
    stopped, _ = happen(restarting, StopRequested("me"), drained)
    assert stopped.phase is P.STOPPED


def test_a_start() -> None:
    """What runs is not started; what stops goes on afterwards; what has finished is only
    begun anew."""
    running, _ = happen(NEW, RunStarted(()))
    refused = (Decline("job runs already"),)
    assert happen(running, StartRequested())[1] == refused
    stopping, _ = happen(running, StopRequested("me"))
    restarting, effects = happen(stopping, StartRequested())
    assert (restarting.phase, effects) == (P.RESTARTING, ())
    finished, _ = happen(running, RunEnded(ended()))
    only_fresh = "job has finished; `trainwarden start --fresh job` begins it anew"
    for asked in (StartRequested(), RestartRequested("me")):
        assert happen(finished, asked)[1] == (Decline(only_fresh),)
    anew, effects = happen(finished, StartRequested(fresh=True))
    assert (anew.phase, effects) == (P.QUEUED, ())
    assert happen(anew, StopRequested("me"))[0].phase is P.FINISHED


def test_what_runs_is_neither_replaced_nor_forgotten() -> None:
    """What does not run is."""
    running, _ = happen(NEW, RunStarted(()))
    forgotten = (Decline("job runs; stop it first"),)
    assert happen(running, ForgetRequested())[1] == forgotten
    replaced = (Decline("job runs; stop it first, or choose another name"),)
    assert happen(running, SubmitRequested())[1] == replaced
    over, _ = happen(running, RunEnded(ended()))
    assert happen(over, SubmitRequested())[0] == NEW
    assert happen(over, ForgetRequested())[0].phase is P.FORGOTTEN


def test_what_cannot_start_now_is_tried_again_ever_later() -> None:
    """It is said once; a start that somebody asks for does not wait."""
    job = NEW
    said: tuple[JobEffect, ...] = ()
    for tries in range(1, 12):
        job, effects = step(job, StartPostponed("full"), now=100.0)
        said += effects
        assert job.retry_at == 100.0 + min(2.0 ** (tries - 1), RETRY_SECONDS_MOST)
    sentence = "cannot start, tried again and again: full"
    assert said == (Announce(sentence, LogLevel.WARNING),)
    assert job.idle_status().message == sentence
    assert happen(job, StartRequested())[0].retry_at == 0.0
    assert happen(job, RunStarted(()))[0].tries == 0


def test_what_a_person_has_to_mend_waits_for_one() -> None:
    """The sentence stands in its status, beside how its last run ended."""
    denied, effects = happen(NEW, StartDenied("the script changed"))
    assert denied.phase is P.STOPPED
    assert effects == (Announce("cannot start: the script changed", LogLevel.ERROR),)
    shown = replace(never_begun("job"), message="the script changed")
    assert denied.idle_status() == shown
    asked, _ = happen(denied, StartRequested())
    assert asked.idle_status().message == WAITS
    again = (StartRequested(), StartDenied("the script changed"))
    assert happen(denied, *again)[1] == effects
    anew = recalled("job", wanted=True, again=True, ended=ended())
    refused, _ = happen(anew, StartDenied("no"))
    assert refused.phase is P.FINISHED
    assert refused.idle_status() == replace(ended(), message="no")


def test_a_run_that_cannot_be_looked_after_goes_on() -> None:
    """It is said when it changes."""
    job, effects = happen(NEW, RunStarted(()), RunTroubled("full"), RunTroubled("full"))
    assert job.phase is P.RUNNING
    said = Announce("cannot be looked after: full", LogLevel.WARNING)
    assert effects == (NoteStarted(), said)


@pytest.mark.parametrize(
    ("wanted", "again", "end", "phase"),
    [
        (True, False, None, P.QUEUED),
        (False, False, None, P.STOPPED),
        (True, False, JobState.GAVE_UP, P.STOPPED),
        (True, False, JobState.FINISHED, P.FINISHED),
        (True, True, JobState.DRAINED, P.QUEUED),
        (False, True, JobState.DRAINED, P.STOPPED),
    ],
)
def test_recalled(
    *, wanted: bool, again: bool, end: JobState | None, phase: JobPhase
) -> None:
    """A job of an earlier daemon runs again only where that was asked for."""
    status = None if end is None else ended(end)
    assert recalled("job", wanted=wanted, again=again, ended=status).phase is phase


def test_an_orphan_keeps_its_gpus_and_what_is_wanted_of_it() -> None:
    """It may still train: whatever goes wrong, it is tried again."""
    left = orphaned("job", wanted=True, again=False, gpus=("GPU-1",))
    denied, effects = happen(left, StartDenied("no"), StartPostponed("no"))
    assert (denied.phase, denied.gpus) == (P.ORPHANED, ("GPU-1",))
    sentence = "cannot be looked after, tried again and again: no"
    assert effects == (Announce(sentence, LogLevel.WARNING),)
    assert denied.idle_status().state is JobState.INTERRUPTED
    adopted, effects = happen(denied, RunAdopted(trains=True))
    assert (adopted.phase, adopted.gpus, effects) == (P.RUNNING, ("GPU-1",), ())


def test_what_was_asked_of_an_orphan_is_done_when_it_is_adopted() -> None:
    """A stop ends it; a restart too, where its attempt still runs."""
    left = orphaned("job", wanted=True, again=False, gpus=())
    stopped, effects = happen(left, StopRequested("me"), RunAdopted(trains=True))
    assert (stopped.phase, effects) == (P.STOPPING, (EndRun("an earlier stop"),))
    assert (
        stopped
        == happen(
            orphaned("job", wanted=False, again=False, gpus=()),
            RunAdopted(trains=False),
        )[0]
    )
    again = orphaned("job", wanted=True, again=True, gpus=())
    for asked in (RestartRequested("me"),), (StopRequested("me"), StartRequested()):
        assert happen(left, *asked) == (again, ())
    restarted, effects = happen(again, RunAdopted(trains=True))
    assert (restarted.phase, effects) == (P.RESTARTING, (EndRun("an earlier restart"),))
    gone_on, effects = happen(again, RunAdopted(trains=False))
    assert (gone_on.phase, effects) == (P.RUNNING, (NoteStarted(),))


def test_the_phases_of_a_run() -> None:
    """A supervised run is active, and an orphan is: nothing else."""
    active = {phase for phase in JobPhase if replace(NEW, phase=phase).active}
    assert active == {*SUPERVISED, *ORPHANS}


def test_series_of_a_run_that_is_over() -> None:
    """They last a day from its end, and for as long as it waits for its next turn."""
    assert not NEW.has_series(0.0)
    gave_up = ended(JobState.GAVE_UP)
    over = recalled("job", wanted=True, ended=gave_up, ended_at=-50.0)
    assert over.has_series(SERIES_SECONDS - 50.0)
    assert not over.has_series(SERIES_SECONDS - 49.0)
    again, _ = happen(over, StartRequested())
    assert again.has_series(1e9)
    now = SERIES_SECONDS + 100.0
    denied, _ = happen(again, StartDenied("changed"))
    later, _ = happen(again, RunStarted(()), RunEnded(gave_up))
    assert denied.has_series(now)
    assert later.has_series(now)
    assert not later.has_series(now + 1.0)
