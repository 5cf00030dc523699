"""Memory that grows, or is nearly full: a planned restart, a warning, no failure."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.explain import AVERTED
from supervisor.core.diagnosis.result import (
    AskedEnd,
    Diagnosis,
    IncidentKind,
    RemedyKind,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import AskDrain, RecordIncident, UpdateIncident
from supervisor.core.lifecycle.events import (
    DrainRequested,
    Exited,
    MemoryHigh,
    ProgressReported,
    RestartDue,
)
from supervisor.core.lifecycle.live_incidents import warning
from supervisor.core.lifecycle.memory_incident import (
    ADVICE,
    CAUSES,
    NAMES,
    foreseen,
    planned,
    recycle,
    sentence,
)
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.forecast import Forecast, MemoryLevel, Resource
from supervisor.core.memory.oom_analysis import OomFindings, autopsy_of
from supervisor.core.remediation.conditions import leaking
from supervisor.core.remediation.escalation import FailureContext
from supervisor.core.remediation.history import History
from supervisor.core.remediation.overrides import NOTHING
from tests.support.lives import POLICY, drained, happen, running

FORECAST = Forecast(
    resource=Resource.DEVICE,
    seconds=12.0,
    confidence=0.9999,
    used=95 * 2**20,
    capacity=100 * 2**20,
    growth=2**20,
    grown=90 * 2**20,
    watched_seconds=90.0,
)
DUE = RestartDue(sentence(FORECAST), foreseen(FORECAST))


def incidents(effects: Iterable[object]) -> list[RecordIncident]:
    """Those among the effects."""
    return [effect for effect in effects if isinstance(effect, RecordIncident)]


def test_every_resource_is_told() -> None:
    """Each has its cause, its name, its advice, and what a restart for it averts."""
    assert set(CAUSES) == set(NAMES) == set(ADVICE) == set(Resource)
    assert set(AVERTED) == set(CAUSES.values())


def test_a_sentence() -> None:
    """Rate, part and time are those of the forecast."""
    assert sentence(FORECAST) == (
        "tensors kept between steps grew by 60 MiB a minute, and 95% of what there is "
        "was used up: about 12 s were left before it would have run out"
    )
    assert "have run out" in sentence(replace(FORECAST, seconds=None))


def test_a_planned_restart_is_an_incident_and_no_failure() -> None:
    """Drained, recorded as planned, and started again at once with nothing spent."""
    run, effects = running(ProgressReported(first_step=1), DUE)
    assert run.state is JobState.DRAINING
    assert [effect for effect in effects if isinstance(effect, AskDrain)]
    before = run.history.failures
    run, effects = happen(run, drained(), now=200.0)
    assert run.state is JobState.WAITING
    assert run.deadline == 200.0
    assert run.history.failures == before
    assert run.history.fruitless() == 0
    (record,) = incidents(effects)
    assert record.happened is IncidentKind.PLANNED
    assert record.diagnosis.cause is Cause.DEVICE_OOM
    assert record.diagnosis.autopsy is not None
    assert record.remedy.kind is RemedyKind.RESTART
    assert record.failed_step == 12


@pytest.mark.parametrize(
    ("seconds", "told"), [(420.0, "would have run out in 7 min 00 s."), (None, None)]
)
def test_what_ran_out_before_starts_again_in_time(
    seconds: float | None, told: str | None
) -> None:
    """The restart of a leak of main memory says what it averts, and when."""
    due = recycle(60 * 2**20, most=50 * 2**20, seconds=seconds)
    _, effects = running(ProgressReported(first_step=1), due, drained())
    (record,) = incidents(effects)
    assert record.happened is IncidentKind.PLANNED
    assert record.diagnosis.cause is Cause.HOST_OOM
    assert record.diagnosis.autopsy is not None
    assert record.diagnosis.autopsy.verdict == "host"
    (reason,) = record.diagnosis.because
    assert "60 MiB" in reason.text
    assert "50 MiB" in reason.text
    assert (told or "from 50 MiB on.") in reason.text


def test_what_became_of_it_is_followed() -> None:
    """The next attempt's first step tells that nothing was lost."""
    run, _ = running(ProgressReported(first_step=1), DUE, drained())
    run = replace(run, phase=RunPhase.RUNNING, history=run.history.begun(2))
    _, effects = happen(
        run, ProgressReported(restored_step=12), ProgressReported(first_step=13)
    )
    (*_, update) = [one for one in effects if isinstance(one, UpdateIncident)]
    assert (update.attempt, update.restored_step, update.lost_steps) == (1, 12, 0)


def test_too_late_is_a_failure() -> None:
    """It ran out of memory before it could save: that is told as what it was."""
    killed = Exited(evidence=Evidence(exit=None), last_step=9, snapshot_step=9)
    run, effects = running(ProgressReported(first_step=1), DUE, killed)
    (record,) = incidents(effects)
    assert record.happened is IncidentKind.ENDED
    assert run.restart is None


def test_a_person_who_asks_meanwhile_is_heard() -> None:
    """A drain during a planned restart ends the run, without an incident."""
    run, effects = running(
        ProgressReported(first_step=1), DUE, DrainRequested("SIGTERM"), drained()
    )
    assert run.state is JobState.DRAINED
    assert incidents(effects) == []
    assert run.history.last is not None
    assert run.history.last.asked is AskedEnd.SAVED
    planned, _ = running(ProgressReported(first_step=1), DUE, drained())
    assert planned.history.last is not None
    assert planned.history.last.asked is AskedEnd.PLANNED


@pytest.mark.parametrize(
    ("resource", "happened"),
    [
        (Resource.DEVICE, IncidentKind.DEVICE_MEMORY_HIGH),
        (Resource.HOST, IncidentKind.HOST_MEMORY_HIGH),
    ],
)
def test_a_warning_comes_once(resource: Resource, happened: IncidentKind) -> None:
    """The first of an attempt is an incident, and training goes on."""
    high = MemoryHigh(resource, MemoryLevel(used=95, capacity=100), 7)
    run, effects = running(high, high)
    (record,) = incidents(effects)
    assert record.happened is happened
    assert record.remedy.kind is RemedyKind.GO_ON
    assert "(95%)" in record.diagnosis.because[0].text
    assert run.state is JobState.RUNNING


def test_blocks_are_no_level() -> None:
    """There is no warning about the largest block: it comes and goes."""
    high = MemoryHigh(Resource.CONTIGUOUS, MemoryLevel(used=95, capacity=100), 7)
    assert warning(high, attempt=1) is None
    run, effects = running(high)
    assert incidents(effects) == []
    assert isinstance(run, RunState)


def test_a_leak_is_not_cured_by_slices() -> None:
    """Out of memory for a leak: a fresh process, the same batch."""
    leak = OomFindings(forecasts=(FORECAST,))
    figures = MemoryFigures(
        limit_bytes=600, in_use_bytes=590, requested_bytes=20, free_bytes=10
    )
    evidence = Evidence(exit=None, memory=leak, dump=figures, steps_done=9)
    autopsy = autopsy_of(Cause.DEVICE_OOM, figures, leak)
    diagnosis = Diagnosis(cause=Cause.DEVICE_OOM, because=(), autopsy=autopsy)
    case = FailureContext(
        diagnosis=diagnosis, evidence=evidence, history=History(), overrides=NOTHING
    )
    assert leaking(case)
    assert not leaking(replace(case, diagnosis=replace(diagnosis, autopsy=None)))
    verdict = POLICY.decide(diagnosis, evidence, History(), NOTHING)
    assert (verdict.remedy_step, verdict.remedy.kind) == ("fresh", RemedyKind.RESTART)


def test_a_record_of_a_plan() -> None:
    """It names the step at which the attempt was ended."""
    record = planned(foreseen(FORECAST), attempt=3, step=41)
    assert (record.attempt, record.failed_step) == (3, 41)
