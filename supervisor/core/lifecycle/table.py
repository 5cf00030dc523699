"""The transition table of a run.

1. A state and an event that the table does not name change nothing.
2. A timeout is an event: the state holds its deadline, the loop sends ``DeadlineExpired``.
3. Nothing here acts: ``step`` returns what is to be done, and the loop does it.
4. One attempt at a time: an attempt is launched only from ``waiting``, and only after
   the gate found nothing left of the one before.
5. Every end of an attempt has a diagnosis, every failure an incident.
6. A launch that no process came of is tried again, later and later, and spends no budget
   of training's; after many in a row the run gives up.
7. A hang is judged, shown (the stacks of its threads) and only then killed.
"""

from collections.abc import Mapping
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.lifecycle import stopping as end
from supervisor.core.lifecycle.effects import CheckGate, End, Launch, Say
from supervisor.core.lifecycle.events import (
    Advised,
    Applied,
    DeadlineExpired,
    DrainRequested,
    DriverStuck,
    Event,
    Exited,
    GateClear,
    GateHeld,
    GateUnknown,
    HealthSampled,
    MemoryHigh,
    NoticeReceived,
    ProgressReported,
    ProofReported,
    RestartDue,
    SnapshotFailed,
    Spawned,
    SpawnFailed,
    StacksTaken,
    StepFailed,
    Unkillable,
    WentOn,
)
from supervisor.core.lifecycle.exit_handling import EXIT_GAVE_UP, exited
from supervisor.core.lifecycle.failed_step import step_failed, went_on
from supervisor.core.lifecycle.live_incidents import (
    driver_stuck,
    memory_high,
    unsaved,
)
from supervisor.core.lifecycle.progress_handling import (
    advised,
    applied,
    learned,
    proof_told,
    told,
    without_a_step,
)
from supervisor.core.lifecycle.run_state import RunPhase, RunState, Step, Transition
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.remediation.slice_growth import regrown
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import format_duration

GATE_SECONDS = 1.0
GATE_SECONDS_MOST = 30.0
"""How often a held gate is looked at again: less and less often."""
GATE_SOON_SECONDS = 0.1
"""... as long as it is not known who might hold it."""

LAUNCHES = 15
LAUNCH_SECONDS_MOST = 60.0
"""After so many in a row that failed a run gives up: 1, 2, 4 … seconds apart, in all ten
minutes. A machine that shuts down, a busy systemd or a full disk pass by."""


def step(run: RunState, event: Event, *, now: float) -> Step:
    """What becomes of ``run`` when ``event`` happens at ``now`` (monotonic seconds)."""
    transition = TABLE.get((run.phase, type(event)))
    return (run, ()) if transition is None else transition.act(run, event, now)


def _check_gate(run: RunState, _event: Event, now: float) -> Step:
    since = now if run.waiting_since is None else run.waiting_since
    awaited = run.overrides.awaited
    if awaited is not None and awaited.patience_seconds is not None:
        patient = now - since < awaited.patience_seconds
        awaited = awaited if patient else awaited.lasting
    return replace(run, deadline=None, waiting_since=since), (CheckGate(awaited),)


def _gate_held(run: RunState, event: GateHeld, now: float) -> Step:
    message = f"waiting: {event.because}"
    said = () if message == run.message else (Say(message),)
    wait = min(GATE_SECONDS * 2**run.gate_holds, GATE_SECONDS_MOST)
    held = replace(
        run,
        deadline=now + wait,
        gate_holds=min(run.gate_holds + 1, 10),
        message=message,
    )
    return held, said


def _gate_unknown(run: RunState, _event: Event, now: float) -> Step:
    return replace(run, deadline=now + GATE_SOON_SECONDS), ()


def _launch(run: RunState, event: GateClear, _now: float) -> Step:
    kept = run.quarantined if event.quarantined is None else event.quarantined
    number = run.attempt + 1
    overrides = replace(regrown(run.overrides, run.history), awaited=None)
    stored = None if overrides == NOTHING else overrides
    launched = replace(
        run,
        phase=RunPhase.LAUNCHING,
        attempt=number,
        history=run.history.begun(number).updated(overrides=stored, applied={}),
        overrides=overrides,
        quarantined=kept,
        liveness=run.liveness.fresh(run.history.intervals, hangs=run.history.hangs),
        unsaved=frozenset(),
        deadline=None,
        waiting_since=None,
        gate_holds=0,
        message=f"starting attempt {number}",
    )
    prove = run.policy.proves(run.history, stored)
    return launched, (Launch(number=number, overrides=overrides, prove=prove),)


def _spawned(run: RunState, event: Spawned, now: float) -> Step:
    running = replace(run, phase=RunPhase.RUNNING, message=f"attempt {run.attempt}")
    begun = "still runs: taken over" if event.taken_over else "started"
    said = Say(f"attempt {run.attempt} {begun}, pid {event.pid}")
    if run.stop is not None:  # asked for while the attempt was being started
        draining, effects = end.drain(running, run.stop, now)
        return draining, (said, *effects)
    return running, (said,)


def _spawn_failed(run: RunState, event: SpawnFailed, now: float) -> Step:
    history = run.history.updated(cause=Cause.NONE, started=False)
    failed = replace(run, history=history, deadline=None)
    if run.stop is not None:  # asked for while the attempt was being started
        return end.drain_at_rest(failed, run.stop, now)
    tries = history.unstarted()
    if event.lasting or tries >= LAUNCHES:
        often = "" if event.lasting else f", {tries} times in a row"
        message = f"gave up: attempts could not be started{often}: {event.because}"
        closed, lost = without_a_step(failed, now)
        ended = replace(closed, phase=RunPhase.GAVE_UP, message=message)
        return ended, (*lost, Say(message, LogLevel.ERROR), End(EXIT_GAVE_UP))
    wait = min(2.0 ** max(tries - 1, 0), LAUNCH_SECONDS_MOST)
    when = format_duration(wait)
    message = f"could not be started, next try in {when}: {event.because}"
    again = replace(
        failed, phase=RunPhase.WAITING, deadline=now + wait, message=message
    )
    return again, (Say(message, LogLevel.WARNING),)


def _rows() -> tuple[Transition, ...]:
    s = RunPhase
    unstarted = (s.WAITING, s.DRAINED, s.GAVE_UP)
    over = (s.FINISHED, s.DRAINED, s.WAITING, s.GAVE_UP)
    ended = "the attempt ended"
    look_at = (s.RUNNING, s.DUMPING_STACKS, s.RESTARTING)
    rows = (
        (s.WAITING, DeadlineExpired, (s.WAITING,), _check_gate, "back-off over: check the gate"),
        (s.WAITING, GateHeld, (s.WAITING,), _gate_held, "something is left: wait"),
        (s.WAITING, GateUnknown, (s.WAITING,), _gate_unknown, "not known yet: ask again"),
        (s.WAITING, GateClear, (s.LAUNCHING,), _launch, "gate clear"),
        (s.WAITING, Unkillable, (s.WAITING,), end.unkillable, "D state"),
        (s.WAITING, DrainRequested, (s.DRAINED,), end.drain_at_rest, "asked to end"),
        (s.LAUNCHING, Spawned, (s.RUNNING, s.DRAINING), _spawned, "training started"),
        (s.LAUNCHING, SpawnFailed, unstarted, _spawn_failed, "could not start"),
        (s.LAUNCHING, DrainRequested, (s.LAUNCHING,), end.note_drain, "asked to end: noted"),
        (s.RUNNING, ProgressReported, (s.RUNNING,), learned, "news"),
        (s.RUNNING, Applied, (s.RUNNING,), applied, "in force or not"),
        (s.RUNNING, NoticeReceived, (s.RUNNING,), told, "a sentence"),
        (s.RUNNING, Advised, (s.RUNNING,), advised, "advice"),
        (s.RUNNING, ProofReported, (s.RUNNING,), proof_told, "a proof"),
        (s.RUNNING, SnapshotFailed, (s.RUNNING,), unsaved, "not saved"),
        (s.RUNNING, StepFailed, (s.RUNNING,), step_failed, "a step failed: may it go on?"),
        (s.RUNNING, WentOn, (s.RUNNING,), went_on, "it goes on in its process"),
        (s.RUNNING, HealthSampled, look_at, end.looked, "it hangs, or grew too large"),
        (s.RUNNING, MemoryHigh, (s.RUNNING,), memory_high, "memory nearly full"),
        (s.RUNNING, DriverStuck, (s.RUNNING,), driver_stuck, "GPU driver hangs"),
        (s.RUNNING, RestartDue, (s.RESTARTING,), end.restart_due, "planned restart"),
        (s.RUNNING, DrainRequested, (s.DRAINING, s.KILLING), end.drain, "asked to end"),
        (s.RUNNING, Exited, over, exited, ended),
        (s.DRAINING, ProgressReported, (s.DRAINING,), learned, "news"),
        (s.DRAINING, Applied, (s.DRAINING,), applied, "in force or not"),
        (s.DRAINING, NoticeReceived, (s.DRAINING,), told, "a sentence"),
        (s.DRAINING, Advised, (s.DRAINING,), advised, "advice"),
        (s.DRAINING, ProofReported, (s.DRAINING,), proof_told, "a proof"),
        (s.DRAINING, SnapshotFailed, (s.DRAINING,), unsaved, "not saved"),
        (s.DRAINING, StepFailed, (s.DRAINING,), step_failed, "a step failed: it ends"),
        (s.DRAINING, WentOn, (s.DRAINING,), went_on, "it goes on in its process"),
        (s.DRAINING, DrainRequested, (s.DRAINING, s.KILLING), end.drain_again, "a person asked again"),
        (s.DRAINING, DeadlineExpired, (s.KILLING,), end.grace_over, "grace over"),
        (s.DRAINING, Exited, over, exited, ended),
        (s.RESTARTING, ProgressReported, (s.RESTARTING,), learned, "news"),
        (s.RESTARTING, NoticeReceived, (s.RESTARTING,), told, "a sentence"),
        (s.RESTARTING, Advised, (s.RESTARTING,), advised, "advice"),
        (s.RESTARTING, ProofReported, (s.RESTARTING,), proof_told, "a proof"),
        (s.RESTARTING, SnapshotFailed, (s.RESTARTING,), unsaved, "not saved"),
        (s.RESTARTING, StepFailed, (s.RESTARTING,), step_failed, "a step failed: it ends"),
        (s.RESTARTING, WentOn, (s.RESTARTING,), went_on, "it goes on in its process"),
        (s.RESTARTING, DrainRequested, (s.DRAINING, s.KILLING), end.drain_instead, "asked to end"),
        (s.RESTARTING, DeadlineExpired, (s.KILLING,), end.grace_over, "grace over"),
        (s.RESTARTING, Exited, over, exited, ended),
        (s.DUMPING_STACKS, StacksTaken, (s.KILLING,), end.kill_hung, "stacks are there"),
        (s.DUMPING_STACKS, DeadlineExpired, (s.KILLING,), end.kill_hung, "they do not come"),
        (s.DUMPING_STACKS, Unkillable, (s.DUMPING_STACKS,), end.unkillable, "D state"),
        (s.DUMPING_STACKS, DrainRequested, (s.DUMPING_STACKS,), end.note_drain, "asked to end: noted"),
        (s.DUMPING_STACKS, Exited, over, exited, ended),
        (s.KILLING, DeadlineExpired, (s.KILLING,), end.kill_again, "still there"),
        (s.KILLING, Unkillable, (s.KILLING,), end.unkillable, "D state"),
        (s.KILLING, DrainRequested, (s.KILLING,), end.note_drain, "asked to end: noted"),
        (s.KILLING, Exited, over, exited, ended),
    )  # fmt: skip
    return tuple(
        Transition(source=a, event=b, targets=c, act=d, label=e)
        for a, b, c, d, e in rows
    )


TABLE: Mapping[tuple[RunPhase, type], Transition] = {
    (row.source, row.event): row for row in _rows()
}


def diagram() -> str:
    """The table as a Mermaid state diagram; news and waiting in place left out."""
    lines = ["stateDiagram-v2", "    [*] --> waiting"]
    lines += [
        f"    {row.source} --> {target}: {row.label}"
        for row in TABLE.values()
        for target in row.targets
        if target is not row.source
    ]
    lines += [f"    {state} --> [*]" for state in RunPhase if state.shown.ended]
    return "\n".join(lines)
