"""A step that failed is judged like an end of the attempt, which may go on instead."""

from dataclasses import asdict, replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence, NonFinite
from supervisor.core.diagnosis.explain import explain_incident
from supervisor.core.diagnosis.result import IncidentKind, RemedyKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.effects import (
    AnswerFailure,
    Effect,
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
    ProgressReported,
    Spawned,
    StepFailed,
    WentOn,
)
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.runtime.attempts.directive_builder import answer_of, incident_sentence
from tests.support import lives
from tests.support.lives import fresh, happen, kinds, oom_report

SPEC = Spec(script="x.py")
BATCH = ProgressReported(fit=0, model="m", batch=32, limit_bytes=1000, jit=False)


def running(*events: Event) -> RunState:
    """A run that may go on in place, in its first attempt, 20 steps far."""
    run = fresh()
    run = replace(run, policy=replace(run.policy, in_place=True))
    begun = (DeadlineExpired(), GateClear(), Spawned(7), BATCH)
    first = ProgressReported(first_step=1)
    run, _ = happen(run, *begun, first, *events)
    return run


def failed(
    number: int = 1, *, last: int = 20, snapshot: int | None = 15, **more: object
) -> StepFailed:
    """A step that found no memory."""
    evidence = Evidence(
        exit=None, crash=oom_report(last), steps_done=last, limited=True
    )
    exited = Exited(
        evidence=replace(evidence, **more),  # type: ignore[arg-type]  # by name
        last_step=last,
        snapshot_step=snapshot,
    )
    return StepFailed(number=number, exited=exited)


def lost(number: int = 1, *, last: int = 20, snapshot: int = 10) -> StepFailed:
    """A loss that is no number."""
    seen = NonFinite(last_finite_step=12, step=last, because="the loss is nan")
    return failed(number, last=last, snapshot=snapshot, crash=None, non_finite=seen)


def answer(effects: list[Effect]) -> AnswerFailure:
    """The one answer among ``effects``."""
    (found,) = [one for one in effects if isinstance(one, AnswerFailure)]
    return found


def test_it_is_answered_first_and_an_incident_once_it_goes_on() -> None:
    """Until then it may still end: nothing is written down, and nothing is in force."""
    asked, effects = happen(running(), failed())
    assert kinds(effects) == [AnswerFailure]
    told = answer(effects)
    assert told.overrides is not None
    assert told.overrides.plan is not None
    assert answer_of(told, SPEC).goes_on
    assert answer_of(told, SPEC).slice_ceiling == 32
    assert asked.overrides.plan is None
    assert asked.history.failures == 0

    run, effects = happen(asked, WentOn(1), now=103.0)
    assert (run.phase, run.attempt, run.offer) == (RunPhase.RUNNING, 1, None)
    assert run.overrides == told.overrides
    (record,) = [one for one in effects if isinstance(one, RecordIncident)]
    assert (record.happened, record.recovery) == (IncidentKind.RECOVERED, 1)
    assert record.diagnosis.cause is Cause.DEVICE_OOM
    assert record.remedy.kind is RemedyKind.MICROBATCH
    assert record.remedy.because.endswith(", in the same process")
    assert record.failed_step == 20
    assert run.history.failures == 1
    assert [one.cause for one in run.history.ends] == [Cause.DEVICE_OOM, None]
    assert (
        "a step failed at step 20: the device ran out of memory"
        in incident_sentence(record)
    )


def test_what_is_done_again_and_the_seconds_belong_to_that_incident() -> None:
    """From the failure to the first step after it."""
    run, _ = happen(running(), failed(), now=100.0)
    run, _ = happen(run, WentOn(1), now=101.0)
    sliced = ProgressReported(batch=32, slices=4, slice_size=8, trial=True)
    run, effects = happen(run, sliced, ProgressReported(restored_step=15), now=101.5)
    run, more = happen(run, ProgressReported(first_step=16), now=102.0)
    updates = [one for one in [*effects, *more] if isinstance(one, UpdateIncident)]
    assert {(one.attempt, one.recovery) for one in updates} == {(1, 1)}
    assert updates[-1].lost_steps == 5
    assert updates[-1].downtime_seconds == 2.0
    measured = ProgressReported(slices=4, slice_size=8, measured=True)
    _, effects = happen(run, measured)
    (update,) = [one for one in effects if isinstance(one, UpdateIncident)]
    assert (update.recovery, update.slices) == (1, 4)


def test_what_the_failure_itself_took_is_in_those_seconds() -> None:
    """An allocator that finds no memory waits before it says so."""
    step = failed()
    waited = replace(step, exited=replace(step.exited, idle_seconds=10.0))
    run, _ = happen(running(), waited, now=100.0)
    run, _ = happen(run, WentOn(1), now=101.0)
    run, effects = happen(run, ProgressReported(restored_step=15), now=101.5)
    _, effects = happen(run, ProgressReported(first_step=16), now=102.0)
    spent = [one for one in effects if isinstance(one, UpdateIncident)]
    assert 12.0 in [one.downtime_seconds for one in spent]


def test_the_same_step_is_not_tried_a_second_time() -> None:
    """It ends then, as an attempt of before there was such a way."""
    run, _ = happen(running(), failed(), WentOn(1))
    again, effects = happen(run, failed(2))
    assert answer(effects).overrides is None
    assert "did not get past" in answer(effects).because
    assert answer_of(answer(effects), SPEC).goes_on is False
    ended, effects = happen(again, lives.out_of_memory(last=20, snapshot=15))
    assert ended.state is JobState.WAITING
    (record,) = [one for one in effects if isinstance(one, RecordIncident)]
    assert (record.happened, record.recovery) == (IncidentKind.ENDED, 0)
    later, effects = happen(run, failed(2, last=30, snapshot=25))
    assert answer(effects).overrides is not None
    assert later.offer is not None


def test_its_failures_count_for_the_planner_and_the_budgets() -> None:
    """Slices that failed in a process are never asked for again, nor is a loss that was
    lost in the same place gone back from twice."""
    run, _ = happen(running(), failed(), WentOn(1))
    sliced = ProgressReported(batch=32, slices=4, slice_size=8, trial=True)
    run, _ = happen(run, sliced, ProgressReported(first_step=16))
    _, effects = happen(run, failed(2, last=30, snapshot=25))
    overrides = answer(effects).overrides
    assert overrides is not None
    assert overrides.plan is not None
    assert overrides.plan.ceiling == 8

    run, effects = happen(running(), lost(), WentOn(1))
    assert run.overrides.detour is not None
    assert run.overrides.detour.restore_before_step == 12
    _, effects = happen(run, lives.finished())
    assert not [one for one in effects if isinstance(one, RecordIncident)]
    _, effects = happen(run, lost(2, last=21, snapshot=10))
    assert answer(effects).overrides is None


def test_what_was_read_before_is_not_heard_again() -> None:
    """A supervisor that takes an attempt over reads its records from the first."""
    run, _ = happen(running(), failed(), WentOn(1))
    again, effects = happen(run, failed(), WentOn(1))
    assert (again, effects) == (run, [])


def test_an_answer_of_a_supervisor_that_is_gone_is_told_as_such() -> None:
    """What it had decided is not known any more."""
    run, effects = happen(running(), WentOn(1))
    (said,) = effects
    assert isinstance(said, Say)
    assert "an earlier supervisor had allowed" in said.text
    assert run.history.failures == 0


@pytest.mark.parametrize(
    ("event", "because"),
    [
        (failed(snapshot=0), "no snapshot"),
        (failed(snapshot=None), "no snapshot"),
        (failed(crash=replace(oom_report(20), exception="ValueError", message="x")),
         "leaves a process in doubt"),
    ],
)  # fmt: skip
def test_in_doubt_it_ends(event: StepFailed, because: str) -> None:
    """And nothing else happens until it has."""
    before = running()
    run, effects = happen(before, event)
    assert run == before
    assert answer(effects).overrides is None
    assert because in answer(effects).because


def test_a_remedy_that_needs_a_process_ends_it() -> None:
    """A batch of one sample is not sliced: the run gives up, or starts another."""
    run = running(ProgressReported(batch=1))
    _, effects = happen(run, failed())
    assert "no process that runs" in answer(effects).because


def test_a_failure_that_has_to_wait_ends_it() -> None:
    """A back-off is one between processes."""
    run, _ = happen(running(), failed(last=20, snapshot=15), WentOn(1))
    _, effects = happen(run, failed(2, last=21, snapshot=15))
    assert "has to wait" in answer(effects).because


def test_off_it_always_ends() -> None:
    """``[remedies] in_place = false``."""
    run = running()
    run = replace(run, policy=replace(run.policy, in_place=False))
    _, effects = happen(run, failed())
    assert "not allowed" in answer(effects).because


def test_a_run_that_was_asked_to_end_does() -> None:
    """Its attempt is told to end as well."""
    run, _ = happen(running(), DrainRequested("a person"))
    _, effects = happen(run, failed())
    assert answer(effects).overrides is None


def test_an_attempt_without_history_is_not_answered() -> None:
    """There is none before the first launch."""
    run = replace(fresh(), phase=RunPhase.RUNNING)
    assert happen(run, failed(), WentOn(1)) == (run, [])


def test_it_is_explained_as_what_it_was() -> None:
    """The attempt did not end."""
    _, effects = happen(running(), failed(), WentOn(1))
    (record,) = [one for one in effects if isinstance(one, RecordIncident)]
    incident = {
        **asdict(record),
        "id": 3,
        "job": "j",
        "at": "2026-01-01T00:00:00+00:00",
        "cause": record.diagnosis.cause,
        "because": [asdict(one) for one in record.diagnosis.because],
        "advice": "",
        "remedy": asdict(record.remedy),
        "restored_step": 15,
        "lost_steps": 5,
        "downtime_seconds": 1.0,
        "memory": None,
    }
    text = explain_incident(incident)
    assert "Attempt 1 of j went on in its process after step 20" in text


@pytest.mark.parametrize(
    ("told", "seconds"), [(None, 50.0), (103.0, 3.0), (9999.0, 50.0), (1.0, 0.0)]
)
def test_the_seconds_end_with_the_step_itself(
    told: float | None, seconds: float
) -> None:
    """A supervisor that took the attempt over hears of it late. A time that cannot be is
    not believed: the file may hold anything."""
    run, _ = happen(running(), failed(), WentOn(1), now=100.0)
    sliced = ProgressReported(batch=32, slices=4, slice_size=8, trial=True)
    step = ProgressReported(restored_step=15, first_step=16, at=told)
    _, effects = happen(run, sliced, step, now=150.0)
    (update,) = [one for one in effects if isinstance(one, UpdateIncident)]
    assert update.downtime_seconds == seconds
