"""How attempts end, on request, by force or by themselves, and what follows."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis import diagnose
from supervisor.core.effects import (
    AskDrain,
    Effect,
    End,
    Kill,
    Quarantine,
    RecordIncident,
    Say,
    TakeStacks,
)
from supervisor.core.events import (
    DrainRequested,
    Event,
    Exited,
    Looked,
    RestartDue,
    Unkillable,
)
from supervisor.core.evidence import Evidence
from supervisor.core.examine import examined
from supervisor.core.history import AttemptHistory
from supervisor.core.level import Level
from supervisor.core.liveness import look
from supervisor.core.memory_news import planned, recycle
from supervisor.core.policy import Verdict
from supervisor.core.run import OpenIncident, Run, Step
from supervisor.core.status import JobState
from supervisor.core.treatment import Treatment
from supervisor.core.units import format_duration, shortened
from supervisor.core.verdicts import Diagnosis, Reason, Remedy, RemedyKind

EXIT_FINISHED = 0
EXIT_GAVE_UP = 1
EXIT_DRAINED = 75

STACKS_SECONDS = 15.0
"""How long a hanging process has to show its stacks before it is killed without."""
KILL_SECONDS = 10.0
"""How long SIGKILL may take before it is sent, and reported, again."""
WORTHWHILE_STEPS = 10
"""A restart for main memory that came sooner was in vain: so much is simply needed."""
REBOOT = (
    "SIGKILL did not end the attempt: a process may hang in the driver (D state), "
    "which only a reboot ends"
)
UNTIL_IT_ENDS = "nothing else can be started before"
WITHOUT_IT = "it never runs again: the next attempt goes on without it"


# --- while it runs --------------------------------------------------------------------


def looked(run: Run, event: Event, now: float) -> Step:
    """A look at the attempt: does it live, does it move, has it grown too large?"""
    assert isinstance(event, Looked)  # noqa: S101  # by the table
    liveness, hang = look(run.liveness, event.look, now=now)
    seen = replace(run, liveness=liveness)
    if hang is not None:
        return _hung(seen, hang.sentence, now)
    most = run.treatment.recycle_bytes
    if most is not None and (event.rss_bytes or 0) >= most and _trains(run):
        due = recycle(event.rss_bytes or 0, most=most, seconds=event.host_seconds)
        return restart_due(seen, due, now)
    return seen, ()


def _trains(run: Run) -> bool:
    """Whether this attempt has begun to train: a restart before would be in vain."""
    return run.history.last is not None and run.history.last.restored_step is not None


def _hung(run: Run, because: str, now: float) -> Step:
    killing = replace(
        run,
        state=JobState.KILLING,
        deadline=now + STACKS_SECONDS,
        killed_because=because,
        stacks_awaited=True,
        message=because,
    )
    said = Say(f"attempt {run.attempt} hangs: {because}", Level.WARNING)
    return killing, (said, TakeStacks())


def restart_due(run: Run, event: Event, now: float) -> Step:
    """Save, end, and start again: no failure, and nothing is lost."""
    assert isinstance(event, RestartDue)  # noqa: S101  # by the table
    drained, effects = drain(run, DrainRequested("a planned restart"), now)
    resuming = replace(
        drained, drain_by=None, resuming=event.because, averts=event.averts
    )
    return resuming, (Say(f"planned restart: {event.because}"), *effects)


# --- asked to end ---------------------------------------------------------------------


def drain(run: Run, event: Event, now: float) -> Step:
    """Ask for a snapshot and the end."""
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    if event.at_once:
        return _end_at_once(run, event, now)
    message = (
        f"{event.by}: saving a snapshot at the next step, then ending "
        f"(at most {format_duration(run.grace_seconds)})"
    )
    draining = replace(
        run,
        state=JobState.DRAINING,
        drain_by=event.by,
        deadline=now + run.grace_seconds,
        message=message,
    )
    return draining, (AskDrain(), Say(message))


def drain_at_rest(run: Run, event: Event, _now: float) -> Step:
    """Between two attempts everything is saved."""
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    return _end_drained(run, f"{event.by}: ended between two attempts")


def drain_again(run: Run, event: Event, now: float) -> Step:
    """The second request does not wait; of a planned restart it only is the first."""
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    if event.at_once:
        return _end_at_once(run, event, now)
    if run.resuming is not None:
        message = f"{event.by}: ending after the snapshot"
        return replace(run, drain_by=event.by, resuming=None, message=message), ()
    asked = replace(run, forgone=True)
    return _kill(asked, f"{event.by} again: ending at once", now)


def _end_at_once(run: Run, event: DrainRequested, now: float) -> Step:
    """Whoever wants that may have given up on a snapshot, or on a planned restart."""
    asked = replace(run, drain_by=event.by, forgone=True, resuming=None)
    return _kill(asked, f"{event.by}: ending at once, at the newest snapshot", now)


def note_drain(run: Run, event: Event, _now: float) -> Step:
    """Asked to end when that cannot be done yet, or is being done."""
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    return replace(run, drain_by=event.by), ()


def grace_over(run: Run, _event: Event, now: float) -> Step:
    """It was asked, and did not end."""
    return _kill(run, "the grace to save a snapshot is over: ending at once", now)


def _kill(run: Run, because: str, now: float) -> Step:
    killing = replace(
        run, state=JobState.KILLING, deadline=now + KILL_SECONDS, message=because
    )
    return killing, (Say(because, Level.WARNING), Kill(because))


def kill_now(run: Run, _event: Event, now: float) -> Step:
    """The stacks are there, or time is up: now, or again."""
    if run.stacks_awaited:
        because = run.killed_because or run.message
        killing = replace(run, deadline=now + KILL_SECONDS, stacks_awaited=False)
        return killing, (Kill(because),)
    said = () if run.message == REBOOT else (Say(REBOOT, Level.ERROR),)
    killing = replace(run, deadline=now + KILL_SECONDS, message=REBOOT)
    return killing, (*said, Kill(REBOOT))


def stacks_taken(run: Run, event: Event, now: float) -> Step:
    """Nothing more to wait for."""
    return kill_now(run, event, now) if run.stacks_awaited else (run, ())


def unkillable(run: Run, event: Event, now: float) -> Step:
    """A process hangs in the kernel: say so once, and keep its GPU out of use.

    Of the attempt itself: its end is awaited, however late. What is left of a dead one
    never runs again and holds nobody up: the gate is looked at again at once.
    """
    assert isinstance(event, Unkillable)  # noqa: S101  # by the table
    pids = ", ".join(str(pid) for pid in event.pids)
    because = f"unkillable: process {pids} hangs in the kernel (D state); a reboot is needed"  # fmt: skip
    alive = run.state is JobState.KILLING
    if alive and run.killed_because == because:
        return run, ()
    known = replace(
        run,
        killed_because=because if alive else run.killed_because,
        deadline=run.deadline if alive else now,
        quarantined=run.quarantined.union(event.gpus),
        message=because,
    )
    said = Say(because, Level.ERROR)
    told = (*_quarantine(run, event.gpus, because), said)
    last = run.history.last
    if not alive and last is not None and last.cause is Cause.UNKILLABLE:
        return known, told  # the end of its attempt has that incident already
    remedy = Remedy(
        kind=RemedyKind.WAIT if alive else RemedyKind.GO_ON,
        because=UNTIL_IT_ENDS if alive else WITHOUT_IT,
    )
    record = RecordIncident(
        attempt=run.attempt,
        diagnosis=diagnose(Evidence(exit=None, killed_because=because)),
        remedy=remedy,
        failed_step=None if last is None else last.last_step,
    )
    return known, (record, *told)


def _quarantine(run: Run, gpus: tuple[str, ...], because: str) -> tuple[Effect, ...]:
    new = tuple(gpu for gpu in gpus if gpu not in run.quarantined)
    if not new:
        return ()
    listed = ", ".join(new)
    text = f"{listed}: quarantined until `trainwarden quarantine --return` it"
    said = Say(text, Level.WARNING)
    return Quarantine(gpus=new, attempt=run.attempt, because=because), said


# --- over -----------------------------------------------------------------------------


def exited(run: Run, event: Event, now: float) -> Step:
    """The attempt is over."""
    assert isinstance(event, Exited)  # noqa: S101  # by the table
    told = event.evidence
    killed = run.state is JobState.KILLING and run.drain_by is not None
    evidence = replace(
        told,
        killed_because=run.killed_because,
        stop_requested=told.stop_requested or killed,
    )
    if run.killed_because is not None and evidence.script_exit_code == 0:
        evidence = replace(evidence, finished=True)  # it hung behind its own end
    diagnosis = examined(diagnose(evidence), evidence, wanted=run.policy.terms.gpus)
    history = run.history.updated(
        cause=diagnosis.cause,
        last_step=event.last_step,
        snapshot_step=event.snapshot_step,
        rss_bytes=event.rss_bytes,
        rhythms=tuple(run.liveness.seen.values()),
    )
    over = replace(
        run,
        history=history,
        treatment=_past_the_detour(run.treatment, history.last),
        deadline=None,
        waiting_since=now,
        gate_holds=0,
        killed_because=None,
        stacks_awaited=False,
        forgone=False,
        resuming=None,
        averts=None,
    )
    if evidence.finished:
        ended = replace(over, state=JobState.FINISHED, message="finished")
        return ended, (End(EXIT_FINISHED),)
    if evidence.drained and run.resuming is not None:
        return _planned(over, run.resuming, run.averts, evidence, now)
    if evidence.drained:
        return _end_drained(over, _where_drained(event.last_step))
    if _as_asked(run, event, diagnosis):
        return _end_drained(over, _where_ended(event))
    return _failed(over, evidence, diagnosis, now)


def _as_asked(run: Run, event: Exited, diagnosis: Diagnosis) -> bool:
    """Whether it ended because somebody wanted that, and no more is lost than they knew:
    no incident, as a drain is none. A snapshot that did not come in time is one."""
    asked = run.drain_by is not None and diagnosis.cause is Cause.PREEMPTED
    return asked and (run.forgone or event.last_step in {None, event.snapshot_step})


def _where_ended(event: Exited) -> str:
    if event.last_step is None:
        return "ended before the first step"
    saved = event.snapshot_step
    newest = (
        "there is no snapshot" if saved is None else f"the newest snapshot: {saved}"
    )
    return f"ended at step {event.last_step}; {newest}"


def _past_the_detour(treatment: Treatment, last: AttemptHistory | None) -> Treatment:
    """The way round a bad place is done once a snapshot was made on it."""
    if treatment.detour is None or last is None:
        return treatment
    made, began = last.snapshot_step, last.restored_step
    if made is None or began is None or made <= began:
        return treatment
    return replace(treatment, detour=None)


def _planned(
    run: Run,
    because: str,
    averts: Diagnosis | None,
    evidence: Evidence,
    now: float,
) -> Step:
    message = f"next attempt: {because}"
    waiting = replace(
        run,
        state=JobState.WAITING,
        history=run.history.updated(remedy=RemedyKind.RESTART),
        treatment=_without_vain_restarts(run.treatment, run.history.last),
        deadline=now,
        message=message,
    )
    if averts is None:
        return waiting, (Say(message),)
    step = None if run.history.last is None else run.history.last.last_step
    found = examined(averts, evidence, wanted=run.policy.terms.gpus)
    record = planned(found, attempt=run.attempt, step=step)
    incident = OpenIncident(attempt=run.attempt, failed_step=step, at=now)
    return replace(waiting, open_incident=incident), (record, Say(message))


def _without_vain_restarts(
    treatment: Treatment, last: AttemptHistory | None
) -> Treatment:
    """Planned restarts spend no budget, so one that came to nothing is the last: if
    memory runs out after it, that is a failure, and the budget decides."""
    done = 0 if last is None else (last.last_step or 0) - (last.restored_step or 0)
    if treatment.recycle_bytes is None or done >= WORTHWHILE_STEPS:
        return treatment
    return replace(treatment, recycle_bytes=None)


def _where_drained(step: int | None) -> str:
    return f"drained at step {step}" if step else "drained before the first step"


def _failed(run: Run, evidence: Evidence, diagnosis: Diagnosis, now: float) -> Step:
    verdict = _verdict(run, evidence, diagnosis)
    last = run.history.last
    step = None if last is None else last.last_step
    record = RecordIncident(
        attempt=run.attempt,
        diagnosis=diagnosis,
        remedy=verdict.remedy,
        failed_step=step,
        stacks=evidence.stacks,
    )
    failed = replace(
        run,
        history=run.history.updated(remedy=verdict.remedy.kind, rung=verdict.rung),
        treatment=verdict.treatment,
        quarantined=run.quarantined.union(verdict.quarantine),
        open_incident=OpenIncident(attempt=run.attempt, failed_step=step, at=now),
    )
    kept_out = _quarantine(run, verdict.quarantine, _first_reason(diagnosis))
    next_run, effects = _after_verdict(failed, verdict.remedy, now)
    return next_run, (record, *kept_out, *effects)


def _first_reason(diagnosis: Diagnosis) -> str:
    reasons = [*diagnosis.because, Reason(str(Cause(diagnosis.cause)), "cause")]
    return shortened(reasons[0].text, 300)


def _verdict(run: Run, evidence: Evidence, diagnosis: Diagnosis) -> Verdict:
    """A run that was asked to end does; a GPU that failed is kept out all the same."""
    verdict = run.policy.decide(
        diagnosis,
        evidence,
        run.history,
        run.treatment,
        quarantined=run.quarantined,
    )
    if run.drain_by is None:
        return verdict
    because = "the run was asked to end"
    remedy = Remedy(kind=RemedyKind.NONE, because=because)
    return replace(verdict, remedy=remedy, treatment=run.treatment, rung=None)


def _after_verdict(run: Run, remedy: Remedy, now: float) -> Step:
    if remedy.kind is RemedyKind.STOP:
        ended = replace(run, state=JobState.GAVE_UP, message=remedy.because)
        said = Say(f"gave up: {remedy.because}", Level.ERROR)
        return ended, (said, End(EXIT_GAVE_UP))
    if remedy.kind is RemedyKind.NONE:
        return _end_drained(run, remedy.because)
    wait = remedy.wait_seconds
    when = f"next attempt in {format_duration(wait)}" if wait else "next attempt"
    message = f"{when}: {remedy.because}"
    waiting = replace(run, state=JobState.WAITING, deadline=now + wait, message=message)
    return waiting, (Say(message),)


def _end_drained(run: Run, message: str) -> Step:
    ended = replace(
        run, state=JobState.DRAINED, deadline=None, message=message, drain_by=None
    )
    return ended, (Say(message), End(EXIT_DRAINED))
