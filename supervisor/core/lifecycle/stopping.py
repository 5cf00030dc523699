"""Handlers that end an attempt: on request, by force, or for a new beginning."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence, Killed
from supervisor.core.diagnosis.result import Remedy, RemedyKind
from supervisor.core.lifecycle.effects import (
    AskDrain,
    Kill,
    RecordIncident,
    Say,
    TakeStacks,
)
from supervisor.core.lifecycle.events import (
    DrainRequested,
    Event,
    HealthSampled,
    RestartDue,
    Unkillable,
)
from supervisor.core.lifecycle.exit_handling import end_drained, quarantine
from supervisor.core.lifecycle.memory_incident import recycle
from supervisor.core.lifecycle.progress_handling import without_a_step
from supervisor.core.lifecycle.run_state import RunPhase, RunState, Step
from supervisor.core.liveness.hang_detection import Hang, Liveness, look, seen_every
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import counted, format_duration
from supervisor.wire.reasons import KillReason

STACKS_SECONDS = 15.0
"""How long a hanging process has to show its stacks before it is killed without."""
KILL_SECONDS = 10.0
"""How long SIGKILL may take before it is sent, and reported, again."""
DOUBT_SECONDS, DOUBT_FACTOR = 10.0, 3.0
"""Who is asked to save its state after so long without progress, and so many times what
is usual, may hang."""
PLANNED = "a planned restart"
REBOOT = (
    "SIGKILL did not end the attempt: a process may hang in the driver (D state), "
    "which only a reboot ends"
)
UNTIL_IT_ENDS = "nothing else can be started before"
WITHOUT_IT = "it never runs again: the next attempt goes on without it"


# --- while it runs --------------------------------------------------------------------


def looked(run: RunState, event: HealthSampled, now: float) -> Step:
    """A look at the attempt: does it live, does it move, has it grown too large?"""
    liveness, hang = look(run.liveness, event.look, now=now)
    seen = replace(run, liveness=liveness)
    if hang is not None:
        return _hung(seen, hang, now)
    most = run.overrides.recycle_bytes
    if most is not None and (event.rss_bytes or 0) >= most and _trains(run):
        due = recycle(event.rss_bytes or 0, most=most, seconds=event.host_seconds)
        return restart_due(seen, due, now)
    return seen, ()


def _trains(run: RunState) -> bool:
    """Whether this attempt has begun to train: a restart before would be in vain."""
    return run.history.last is not None and run.history.last.restored_step is not None


def _hung(run: RunState, hang: Hang, now: float) -> Step:
    because = hang.sentence
    dumping = replace(
        run,
        phase=RunPhase.DUMPING_STACKS,
        deadline=now + STACKS_SECONDS,
        killed=Killed(
            reason=hang.kind, sentence=because, idle_since=now - hang.seconds
        ),
        message=because,
    )
    hangs = "is out of memory" if hang.kind is KillReason.REFUSED else "hangs"
    said = Say(f"attempt {run.attempt} {hangs}: {because}", LogLevel.WARNING)
    return dumping, (said, TakeStacks())


def restart_due(run: RunState, event: RestartDue, now: float) -> Step:
    """Save, end, and start again: no failure, and nothing is lost."""
    restarting = replace(run, phase=RunPhase.RESTARTING, restart=event)
    saving, effects = _save_and_end(restarting, DrainRequested(PLANNED), now)
    return saving, (Say(f"planned restart: {event.because}"), *effects)


# --- asked to end ---------------------------------------------------------------------


def drain(run: RunState, event: DrainRequested, now: float) -> Step:
    """Ask for a snapshot and the end."""
    if event.at_once:
        return _end_at_once(run, event, now)
    draining = replace(run, phase=RunPhase.DRAINING, stop=event, restart=None)
    return _save_and_end(draining, event, now)


def _save_and_end(run: RunState, event: DrainRequested, now: float) -> Step:
    sooner = f"; {event.sooner} ends it at once" if event.sooner else ""
    message = (
        f"{event.by}: saving a snapshot at the next step, then ending "
        f"(at most {format_duration(run.grace_seconds)}{sooner}){_doubt(run.liveness)}"
    )
    saving = replace(run, deadline=now + run.grace_seconds, message=message)
    return saving, (AskDrain(), Say(message))


def _doubt(liveness: Liveness) -> str:
    """That it may hang, where progress has been awaited for far longer than is usual: no
    snapshot comes then, however long one waits."""
    waited, phase = liveness.stalled_for, liveness.last.phase or "starting"
    usual = liveness.usual(phase)
    if usual is None or waited < max(DOUBT_SECONDS, DOUBT_FACTOR * usual):
        return ""
    return (
        f". There was no progress for {format_duration(waited)} ({phase};"
        f" {seen_every(usual)}): if it hangs, it ends at the newest snapshot that there"
        " is"
    )


def drain_at_rest(run: RunState, event: DrainRequested, now: float) -> Step:
    """Between two attempts what can be saved is saved."""
    closed, lost = without_a_step(run, now)
    message = f"{event.by}: ended between two attempts{_left(run.history.last)}"
    ended, effects = end_drained(closed, message)
    return ended, (*lost, *effects)


def _left(last: AttemptHistory | None) -> str:
    """Where a resume goes on after ``last``, and what it does again, as far as is known."""
    if last is None or last.last_step is None or last.snapshot_step is None:
        return ""
    if not last.snapshot_step:
        return "; nothing is saved: the script would run from its top"
    again = last.last_step - last.snapshot_step
    repeated = f", and does {counted(again, 'step')} again" if again > 0 else ""
    return (
        f"; a resume goes on from the snapshot at step {last.snapshot_step}{repeated}"
    )


def drain_again(run: RunState, event: DrainRequested, now: float) -> Step:
    """A person's second request does not wait; a scheduler's is the first, repeated."""
    if event.at_once:
        return _end_at_once(run, event, now)
    if event.repeats:
        return run, ()
    asked = replace(run, stop=replace(event, at_once=True))
    because = f"{event.by} again: ending at once"
    return _kill(asked, KillReason.AT_ONCE, because, now)


def drain_instead(run: RunState, event: DrainRequested, now: float) -> Step:
    """It saves its state for a planned restart already: now that is for the end."""
    if event.at_once:
        return _end_at_once(run, event, now)
    message = f"{event.by}: ending after the snapshot"
    draining = replace(run, phase=RunPhase.DRAINING, stop=event, restart=None)
    return replace(draining, message=message), ()


def _end_at_once(run: RunState, event: DrainRequested, now: float) -> Step:
    """Whoever wants that may have given up on a snapshot, or on a planned restart."""
    asked = replace(run, stop=event, restart=None)
    because = f"{event.by}: ending at once, at the newest snapshot"
    return _kill(asked, KillReason.AT_ONCE, because, now)


def note_drain(run: RunState, event: DrainRequested, _now: float) -> Step:
    """Asked to end when that cannot be done yet, or is being done."""
    at_once = run.stop is not None and run.stop.at_once
    return replace(run, stop=replace(event, at_once=at_once), restart=None), ()


def grace_over(run: RunState, _event: Event, now: float) -> Step:
    """It was asked, and did not end."""
    because = "the grace to save a snapshot is over: ending at once"
    return _kill(run, KillReason.GRACE_OVER, because, now)


def _kill(run: RunState, reason: KillReason, because: str, now: float) -> Step:
    killing = replace(
        run,
        phase=RunPhase.KILLING,
        deadline=now + KILL_SECONDS,
        killing=reason,
        message=because,
    )
    return killing, (Say(because, LogLevel.WARNING), Kill(reason))


def kill_hung(run: RunState, _event: Event, now: float) -> Step:
    """The stacks are there, or do not come."""
    assert run.killed is not None  # noqa: S101  # by the table
    reason = run.killed.reason
    killing = replace(
        run, phase=RunPhase.KILLING, deadline=now + KILL_SECONDS, killing=reason
    )
    return killing, (Kill(reason),)


def kill_again(run: RunState, _event: Event, now: float) -> Step:
    """Who is still there may wait in the kernel for something that comes yet."""
    again = KillReason.STILL_THERE
    said = () if run.killing is again else (Say(REBOOT, LogLevel.ERROR),)
    killing = replace(run, deadline=now + KILL_SECONDS, killing=again, message=REBOOT)
    return killing, (*said, Kill(again))


def unkillable(run: RunState, event: Unkillable, now: float) -> Step:
    """A process hangs in the kernel: say so once, and keep its GPU out of use.

    Of the attempt itself: its end is awaited, however late. What is left of a dead one
    never runs again and holds nobody up: the gate is looked at again at once.
    """
    pids = ", ".join(str(pid) for pid in event.pids)
    because = f"unkillable: process {pids} hangs in the kernel (D state); a reboot is needed"  # fmt: skip
    alive = run.phase is not RunPhase.WAITING
    hangs = Killed(reason=KillReason.UNKILLABLE, sentence=because, pids=event.pids)
    if alive and run.killed == hangs:
        return run, ()
    known = replace(
        run,
        killed=hangs if alive else run.killed,
        deadline=run.deadline if alive else now,
        quarantined=run.quarantined.union(event.gpus),
        message=because,
    )
    said = Say(because, LogLevel.ERROR)
    told = (*quarantine(run, event.gpus, because), said)
    last = run.history.last
    if not alive and last is not None and last.cause is Cause.UNKILLABLE:
        return known, told  # the end of its attempt has that incident already
    remedy = Remedy(
        kind=RemedyKind.WAIT if alive else RemedyKind.GO_ON,
        because=UNTIL_IT_ENDS if alive else WITHOUT_IT,
    )
    record = RecordIncident(
        attempt=run.attempt,
        diagnosis=diagnose(Evidence(exit=None, killed=hangs)),
        remedy=remedy,
        failed_step=None if last is None else last.last_step,
    )
    return known, (record, *told)
