"""Handlers of a failed step that the process of an attempt may outlive.

It is judged as an end of the attempt: the same diagnosis, the same policy, the same
budgets. What differs is written down only once the attempt has gone on: until then it
may still end, which is an end like any other.
"""

from dataclasses import replace

from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.examination import examined
from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.lifecycle.effects import AnswerFailure, RecordIncident, Say
from supervisor.core.lifecycle.events import StepFailed, WentOn
from supervisor.core.lifecycle.exit_handling import idle_since, past_the_detour
from supervisor.core.lifecycle.progress_handling import done_again, without_a_step
from supervisor.core.lifecycle.run_state import (
    Offer,
    OpenIncident,
    RunPhase,
    RunState,
    Step,
)
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.in_place import why_not
from supervisor.core.remediation.observations import FOR_MEMORY
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.remediation.policy import Decision

IN_PLACE = "{}, in the same process"
FORGOTTEN = (
    "attempt {}: it went on in its process after a failed step, as an earlier supervisor"
    " had allowed; why is not known any more"
)


def step_failed(run: RunState, event: StepFailed, now: float) -> Step:
    """The attempt asks whether to go on; it is told what to do."""
    last = run.history.last
    if last is None or event.number <= last.recovered:
        return run, ()  # read again by a supervisor that took the attempt over
    evidence = replace(event.exited.evidence, fits=run.history.fits)
    diagnosis = examined(diagnose(evidence), evidence, wanted=run.policy.terms.gpus)
    history = run.history.updated(
        cause=diagnosis.cause,
        subject=evidence.subject if diagnosis.cause in FOR_MEMORY else None,
        last_step=event.exited.last_step,
        snapshot_step=event.exited.snapshot_step,
        rss_bytes=event.exited.rss_bytes,
    )
    ended = history.attempts[-1]
    before = past_the_detour(run.overrides, ended)
    decision = run.policy.decide(
        diagnosis, evidence, history, before, quarantined=run.quarantined
    )
    doubt = why_not(
        diagnosis,
        decision,
        ended=ended,
        disproved=any(one.disproved for one in history.ends),
        before=before,
        allowed=run.policy.in_place and run.phase is RunPhase.RUNNING,
    )
    if doubt is not None:
        ends = AnswerFailure(number=event.number, overrides=None, because=doubt)
        return replace(run, offer=None), (ends,)
    offer = Offer(
        number=event.number,
        ended=ended,
        diagnosis=diagnosis,
        decision=decision,
        at=idle_since(run, event.exited, now),
    )
    goes_on = AnswerFailure(
        number=event.number,
        overrides=decision.overrides,
        because=decision.remedy.because,
        prove=run.policy.proves(history, _in_force(decision)),
    )
    return replace(run, offer=offer), (goes_on,)


def went_on(run: RunState, event: WentOn, _now: float) -> Step:
    """It does: the failure is an incident, and what was decided is in force."""
    offer, last = run.offer, run.history.last
    if last is None or event.number <= last.recovered:
        return run, ()  # as above
    if offer is None or offer.number != event.number:
        return run, (Say(FORGOTTEN.format(run.attempt)),)
    decision, number = offer.decision, offer.number
    remedy = replace(decision.remedy, because=IN_PLACE.format(decision.remedy.because))
    record = RecordIncident(
        happened=IncidentKind.RECOVERED,
        attempt=run.attempt,
        recovery=number,
        diagnosis=offer.diagnosis,
        remedy=remedy,
        failed_step=offer.ended.last_step,
    )
    incident = OpenIncident(
        attempt=run.attempt,
        failed_step=offer.ended.last_step,
        at=offer.at,
        recovery=number,
    )
    closed, lost = without_a_step(run, offer.at)
    going = replace(
        closed,
        history=_as_it_goes_on(run, offer, last),
        overrides=decision.overrides,
        open_incident=incident,
        offer=None,
    )
    said = Say(f"attempt {run.attempt} goes on: {remedy.because}")
    again = done_again(run, offer.ended.last_step)
    return going, (*lost, *again, record, said)


def _as_it_goes_on(run: RunState, offer: Offer, last: AttemptHistory) -> History:
    decision = offer.decision
    ended = replace(
        offer.ended,
        recovery=offer.number,
        remedy=decision.remedy.kind,
        remedy_step=decision.remedy_step,
    )
    newest = last.went_on(
        ended,
        overrides=_in_force(decision),
        restored_step=None,
        stepped=False,
        proof=None,
    )
    return replace(run.history, attempts=(*run.history.attempts[:-1], newest))


def _in_force(decision: Decision) -> Overrides | None:
    """As a history keeps it."""
    return None if decision.overrides == NOTHING else decision.overrides
