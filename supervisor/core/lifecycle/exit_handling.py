"""Handlers of the end of an attempt: what that was, and what follows."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import advice_at_the_end
from supervisor.core.diagnosis.diagnose import diagnose, from_outside
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import examined
from supervisor.core.diagnosis.explain import own_text_of, verdict_sentence
from supervisor.core.diagnosis.result import AskedEnd, Diagnosis, Remedy, RemedyKind
from supervisor.core.lifecycle.effects import (
    Effect,
    End,
    Quarantine,
    RecordIncident,
    Say,
)
from supervisor.core.lifecycle.events import Exited, RestartDue
from supervisor.core.lifecycle.memory_incident import planned
from supervisor.core.lifecycle.progress_handling import (
    done_again,
    judged,
    without_a_step,
)
from supervisor.core.lifecycle.run_state import OpenIncident, RunPhase, RunState, Step
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.observations import FOR_MEMORY
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.policy import Decision
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import format_duration, shortened
from supervisor.wire.reasons import KillReason

EXIT_FINISHED = 0
EXIT_GAVE_UP = 1
EXIT_DRAINED = 75

WORTHWHILE_STEPS = 10
"""A restart for main memory that came sooner was in vain: so much is simply needed."""


def exited(run: RunState, event: Exited, now: float) -> Step:
    """The attempt is over."""
    known, said = judged(run, stepped=False)
    closed, lost = without_a_step(known, idle_since(run, event, now))
    ended, effects = _exited(closed, event, now)
    return ended, (*said, *lost, *effects)


def idle_since(run: RunState, event: Exited, now: float) -> float:
    """Since when there was no step, of an attempt that fails ``now``; of one that hung, no
    progress. Of one that ends well, or as it was asked to, ``now``: no incident goes on."""
    evidence, killed = event.evidence, run.killed
    if killed is not None and killed.idle_since is not None:
        return killed.idle_since
    wanted = evidence.finished or evidence.drained or run.stop is not None
    return now if wanted else now - max(event.idle_seconds, 0.0)


def _exited(run: RunState, event: Exited, now: float) -> Step:
    told = event.evidence
    killed = run.phase in {RunPhase.DUMPING_STACKS, RunPhase.KILLING}
    evidence = replace(
        told,
        killed=run.killed,
        stop_requested=told.stop_requested or (killed and run.stop is not None),
        grace_seconds=_grace_that_was_over(run),
        fits=run.history.fits,
    )
    if run.killed is not None and evidence.script_exit_code == 0:
        evidence = replace(evidence, finished=True)  # it hung behind its own end
    diagnosis = examined(diagnose(evidence), evidence, wanted=run.policy.terms.gpus)
    history = run.history.updated(
        cause=diagnosis.cause,
        outside=from_outside(diagnosis, evidence),
        asked=_how_asked(run, evidence, diagnosis),
        subject=evidence.subject if diagnosis.cause in FOR_MEMORY else None,
        last_step=event.last_step,
        snapshot_step=event.snapshot_step,
        rss_bytes=event.rss_bytes,
        intervals=tuple(run.liveness.seen.values()),
    )
    over = replace(
        run,
        history=history,
        overrides=past_the_detour(run.overrides, history.last),
        deadline=None,
        waiting_since=now,
        gate_holds=0,
        killed=None,
        killing=None,
        restart=None,
        offer=None,
    )
    if evidence.finished:
        ended = replace(over, phase=RunPhase.FINISHED, message="finished")
        return ended, (End(EXIT_FINISHED),)
    if evidence.drained and run.restart is not None:
        return _planned(over, run.restart, evidence, now)
    if evidence.drained:
        return end_drained(over, _where_drained(event))
    if _as_asked(run, event, diagnosis):
        return end_drained(over, _where_ended(event))
    since = idle_since(run, event, now)
    return _failed(over, evidence, diagnosis, now, since=since)


def _grace_that_was_over(run: RunState) -> float | None:
    """How long it had to save its state, where SIGKILL was sent as that was over."""
    over = {KillReason.GRACE_OVER, KillReason.STILL_THERE}
    if run.killed is not None or run.killing not in over:
        return None
    return run.grace_seconds


def _how_asked(
    run: RunState, evidence: Evidence, diagnosis: Diagnosis
) -> AskedEnd | None:
    """None: it ended otherwise, whatever it had been asked."""
    if diagnosis.cause is not Cause.PREEMPTED:
        return None
    if evidence.drained:
        return AskedEnd.SAVED if run.restart is None else AskedEnd.PLANNED
    if run.stop is not None and run.stop.at_once:
        return AskedEnd.AT_ONCE
    asked = evidence.stop_requested or evidence.grace_seconds is not None
    return AskedEnd.UNSAVED if asked else None


def _as_asked(run: RunState, event: Exited, diagnosis: Diagnosis) -> bool:
    """Whether it ended because somebody wanted that, and no more is lost than they knew:
    no incident, as a drain is none. A snapshot that did not come in time is one."""
    if run.stop is None or diagnosis.cause is not Cause.PREEMPTED:
        return False
    return run.stop.at_once or event.last_step in {None, event.snapshot_step}


def _where_ended(event: Exited) -> str:
    if event.last_step is None:
        return "ended before the first step"
    saved = event.snapshot_step
    newest = f"the newest snapshot: {saved}" if saved else "there is no snapshot"
    return f"ended at step {event.last_step}; {newest}"


def past_the_detour(overrides: Overrides, last: AttemptHistory | None) -> Overrides:
    """The way round a bad place is done once a snapshot was made on it."""
    if overrides.detour is None or last is None:
        return overrides
    made, began = last.snapshot_step, last.restored_step
    if made is None or began is None or made <= began:
        return overrides
    return replace(overrides, detour=None)


def _planned(
    run: RunState, restart: RestartDue, evidence: Evidence, now: float
) -> Step:
    message = f"next attempt: {restart.because}"
    waiting = replace(
        run,
        phase=RunPhase.WAITING,
        history=run.history.updated(remedy=RemedyKind.RESTART),
        overrides=_without_vain_restarts(run.overrides, run.history.last),
        deadline=now,
        message=message,
    )
    if restart.averts is None:
        return waiting, (Say(message),)
    step = None if run.history.last is None else run.history.last.last_step
    found = examined(restart.averts, evidence, wanted=run.policy.terms.gpus)
    record = planned(found, attempt=run.attempt, step=step)
    incident = OpenIncident(attempt=run.attempt, failed_step=step, at=now)
    return replace(waiting, open_incident=incident), (record, Say(message))


def _without_vain_restarts(
    overrides: Overrides, last: AttemptHistory | None
) -> Overrides:
    """Planned restarts spend no budget, so one that came to nothing is the last: if
    memory runs out after it, that is a failure, and the budget decides."""
    done = 0 if last is None else (last.last_step or 0) - (last.restored_step or 0)
    if overrides.recycle_bytes is None or done >= WORTHWHILE_STEPS:
        return overrides
    return replace(overrides, recycle_bytes=None)


def _where_drained(event: Exited) -> str:
    if not event.last_step:
        return "drained before the first step"
    unsaved = "; nothing is saved" if event.snapshot_step == 0 else ""
    return f"drained at step {event.last_step}{unsaved}"


def _failed(
    run: RunState,
    evidence: Evidence,
    diagnosis: Diagnosis,
    now: float,
    *,
    since: float,
) -> Step:
    """``since``: when it made its last step."""
    decision = _with_the_wait(run, evidence, _decision(run, evidence, diagnosis))
    if decision.remedy.kind is RemedyKind.STOP and evidence.refused is None:
        sliced = RemedyKind.MICROBATCH in [one.remedy for one in run.history.attempts]
        advice = advice_at_the_end(diagnosis.cause, diagnosis.advice, sliced=sliced)
        diagnosis = replace(diagnosis, advice=advice)
    last = run.history.last
    step = None if last is None else last.last_step
    record = RecordIncident(
        attempt=run.attempt,
        diagnosis=diagnosis,
        remedy=decision.remedy,
        failed_step=step,
        stacks=evidence.stacks,
    )
    failed = replace(
        run,
        history=run.history.updated(
            remedy=decision.remedy.kind,
            remedy_step=decision.remedy_step,
            error=own_text_of(diagnosis) or None,
        ),
        overrides=decision.overrides,
        quarantined=run.quarantined.union(decision.quarantine),
        open_incident=OpenIncident(attempt=run.attempt, failed_step=step, at=since),
    )
    why = shortened(verdict_sentence(diagnosis), 400)
    kept_out = quarantine(run, decision.quarantine, why)
    next_run, effects = _after_decision(failed, decision.remedy, now)
    if next_run.state.ended and since < now:  # nobody follows it any more
        next_run, lost = without_a_step(next_run, now)
        effects = (*lost, *effects)
    return next_run, (*done_again(run, step), record, *kept_out, *effects)


def _decision(run: RunState, evidence: Evidence, diagnosis: Diagnosis) -> Decision:
    """A run that was asked to end does; a GPU that failed is kept out all the same."""
    last = run.history.last
    decision = run.policy.decide(
        diagnosis,
        evidence,
        run.history,
        run.overrides,
        quarantined=run.quarantined,
    )
    if run.stop is None:
        return decision
    because = "the run was asked to end"
    saved = None if last is None else last.snapshot_step
    if saved and evidence.refused is None:
        because += f"; its newest snapshot is of step {saved}"
    remedy = Remedy(kind=RemedyKind.NONE, because=because)
    return replace(decision, remedy=remedy, overrides=run.overrides, remedy_step=None)


def _with_the_wait(run: RunState, evidence: Evidence, decision: Decision) -> Decision:
    """With how long the next attempt may go without progress, where that is longer than
    before: whoever watches it would wait for a hang that is not judged yet."""
    remedy, hang = decision.remedy, evidence.killed
    stalled = hang is not None and hang.reason is KillReason.STALLED
    if not stalled or remedy.kind in {RemedyKind.STOP, RemedyKind.NONE}:
        return decision
    hangs, phase = run.history.hangs, run.liveness.last.phase or "starting"
    waits = run.liveness.fresh(run.history.intervals, hangs=hangs)
    limit = waits.longer_wait(phase)
    if limit is None:
        return decision
    told = (
        f"{remedy.because}; after {hangs + 1} hangs in a row in vain, which may have been "
        f"slowness, the next is judged at twice the limit: {format_duration(limit)} without "
        f"progress ({phase})"
    )
    return replace(decision, remedy=replace(remedy, because=told))


def _after_decision(run: RunState, remedy: Remedy, now: float) -> Step:
    if remedy.kind is RemedyKind.STOP:
        ended = replace(run, phase=RunPhase.GAVE_UP, message=remedy.because)
        said = Say(f"gave up: {remedy.because}", LogLevel.ERROR)
        return ended, (said, End(EXIT_GAVE_UP))
    if remedy.kind is RemedyKind.NONE:
        return end_drained(run, remedy.because)
    wait = remedy.wait_seconds
    when = f"next attempt in {format_duration(wait)}" if wait else "next attempt"
    message = f"{when}: {remedy.because}"
    waiting = replace(run, phase=RunPhase.WAITING, deadline=now + wait, message=message)
    return waiting, (Say(message),)


def end_drained(run: RunState, message: str) -> Step:
    """The run has ended as it was asked to; it can be taken up again."""
    ended = replace(
        run, phase=RunPhase.DRAINED, deadline=None, message=message, stop=None
    )
    return ended, (Say(message), End(EXIT_DRAINED))


def quarantine(
    run: RunState, gpus: tuple[str, ...], because: str
) -> tuple[Effect, ...]:
    """Keep ``gpus`` out of use, and say so: those that are not so already."""
    new = tuple(gpu for gpu in gpus if gpu not in run.quarantined)
    if not new:
        return ()
    listed = ", ".join(new)
    text = f"{listed}: kept out of use until `trainwarden quarantine --return GPU`"
    said = Say(text, LogLevel.WARNING)
    return Quarantine(gpus=new, attempt=run.attempt, because=because), said
