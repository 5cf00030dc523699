"""The life of a run as one table.

1. A state and an event that the table does not name change nothing.
2. A timeout is an event: the state holds its deadline, the loop sends ``TimeIsUp``.
3. Nothing here acts: ``step`` returns what is to be done, and the loop does it.
4. One attempt at a time: an attempt is launched only from ``waiting``, and only after
   the gate found nothing left of the one before.
5. Every end of an attempt has a diagnosis, every failure an incident.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.batching import Plan
from supervisor.core.diagnosis import diagnose
from supervisor.core.effects import (
    AskDrain,
    CheckGate,
    Effect,
    End,
    Happened,
    Kill,
    Launch,
    RecordIncident,
    Say,
    UpdateIncident,
)
from supervisor.core.events import (
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    Learned,
    SnapshotFailed,
    Spawned,
    SpawnFailed,
    TimeIsUp,
    Told,
)
from supervisor.core.history import History
from supervisor.core.policy import Policy, Verdict
from supervisor.core.status import JobState
from supervisor.core.units import format_duration
from supervisor.core.unsaved import incident_of
from supervisor.core.verdicts import Diagnosis, Remedy, RemedyKind

EXIT_FINISHED = 0
EXIT_GAVE_UP = 1
EXIT_DRAINED = 75

GATE_SECONDS = 1.0
"""How often a held gate is looked at again."""
KILL_SECONDS = 10.0
"""How long SIGKILL may take before it is sent, and reported, again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """The newest failure, until the next attempt has completed a step."""

    attempt: int
    failed_step: int | None
    at: float
    """Monotonic seconds of the exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The whole state of a run."""

    policy: Policy
    grace_seconds: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    history: History = field(default_factory=History)
    plan: Plan | None = None
    deadline: float | None = 0.0
    """Monotonic seconds at which ``TimeIsUp`` is due; None: nothing is awaited."""
    drain_by: str | None = None
    """Who asked for the end, if anybody did."""
    open_incident: OpenIncident | None = None
    message: str = "starting"
    unsaved: frozenset[Happened] = frozenset()
    """What this attempt has an incident for that did not end it."""


Step = tuple[Run, tuple[Effect, ...]]
Act = Callable[[Run, Event, float], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row of the table."""

    source: JobState
    event: type
    targets: tuple[JobState, ...]
    """Where it may lead: for the diagram, and checked by ``step``'s tests."""
    act: Act
    label: str


def step(run: Run, event: Event, *, now: float) -> Step:
    """What becomes of ``run`` when ``event`` happens at ``now`` (monotonic seconds)."""
    transition = TABLE.get((run.state, type(event)))
    return (run, ()) if transition is None else transition.act(run, event, now)


def _check_gate(run: Run, _event: Event, _now: float) -> Step:
    return replace(run, deadline=None), (CheckGate(),)


def _gate_held(run: Run, event: Event, now: float) -> Step:
    assert isinstance(event, GateHeld)  # noqa: S101  # by the table
    message = f"waiting: {event.holder} is still there"
    said = () if message == run.message else (Say(message),)
    return replace(run, deadline=now + GATE_SECONDS, message=message), said


def _launch(run: Run, _event: Event, _now: float) -> Step:
    number = run.attempt + 1
    launched = replace(
        run,
        state=JobState.LAUNCHING,
        attempt=number,
        history=run.history.begun(number),
        unsaved=frozenset(),
        deadline=None,
        message=f"starting attempt {number}",
    )
    return launched, (Launch(number=number, plan=run.plan),)


def _spawned(run: Run, event: Event, now: float) -> Step:
    assert isinstance(event, Spawned)  # noqa: S101  # by the table
    running = replace(run, state=JobState.RUNNING, message=f"attempt {run.attempt}")
    if run.drain_by is not None:  # asked for while the attempt was being started
        return _drain(running, DrainRequested(run.drain_by), now)
    return running, (Say(f"attempt {run.attempt} started, pid {event.pid}"),)


def _spawn_failed(run: Run, event: Event, _now: float) -> Step:
    assert isinstance(event, SpawnFailed)  # noqa: S101  # by the table
    ended = replace(run, state=JobState.GAVE_UP, message=event.because)
    return ended, (Say(event.because), End(EXIT_GAVE_UP))


def _learned(run: Run, event: Event, now: float) -> Step:
    assert isinstance(event, Learned)  # noqa: S101  # by the table
    names = (
        "batch", "slice_size", "peak_bytes", "limit_bytes", "jit", "snapshot_step",
        "restored_step",
    )  # fmt: skip
    news = {name: getattr(event, name) for name in names}
    known = {name: value for name, value in news.items() if value is not None}
    if event.first_step is not None and run.history.last is not None:
        known.setdefault("restored_step", run.history.last.restored_step or 0)
    plan = _settled(run.plan, event)
    learned = replace(run, history=run.history.updated(**known), plan=plan)
    followed, effects = _follow_incident(learned, event, now)
    sliced = [a for a in run.history.attempts if a.remedy is RemedyKind.MICROBATCH]
    if sliced and event.measured:
        update = UpdateIncident(attempt=sliced[-1].number, slices=event.slices)
        effects = (*effects, update)
    return followed, effects


def _told(run: Run, event: Event, _now: float) -> Step:
    assert isinstance(event, Told)  # noqa: S101  # by the table
    return run, (Say(event.sentence),)


def _unsaved(run: Run, event: Event, _now: float) -> Step:
    """The first of an attempt is an incident: a full disk fails at each interval."""
    assert isinstance(event, SnapshotFailed)  # noqa: S101  # by the table
    record = incident_of(event, attempt=run.attempt)
    if record.happened in run.unsaved:
        return run, ()
    return replace(run, unsaved=run.unsaved | {record.happened}), (record,)


def _settled(plan: Plan | None, event: Learned) -> Plan | None:
    """What was measured once holds for the next attempt: it need not measure again."""
    if plan is None or not event.measured or event.slice_size is None:
        return plan
    return replace(
        plan,
        slice_size=event.slice_size,
        slices=event.slices or plan.slices,
        calibrate=False,
    )


def _follow_incident(run: Run, event: Learned, now: float) -> Step:
    incident, last = run.open_incident, run.history.last
    if incident is None or last is None:
        return run, ()
    done = event.first_step is not None
    if not (done or event.restored_step is not None or event.deviations):
        return run, ()
    lost = None
    if incident.failed_step is not None and last.restored_step is not None:
        lost = max(incident.failed_step - last.restored_step, 0)
    update = UpdateIncident(
        attempt=incident.attempt,
        restored_step=last.restored_step,
        lost_steps=lost,
        downtime_seconds=now - incident.at if done else None,
        deviations=event.deviations,
    )
    return replace(run, open_incident=None if done else incident), (update,)


def _note_drain(run: Run, event: Event, _now: float) -> Step:
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    return replace(run, drain_by=event.by), ()


def _drain(run: Run, event: Event, now: float) -> Step:
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
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


def _drained_at_rest(run: Run, event: Event, _now: float) -> Step:
    assert isinstance(event, DrainRequested)  # noqa: S101  # by the table
    return _end_drained(run, f"{event.by}: ended between two attempts")


def _kill(run: Run, event: Event, now: float) -> Step:
    if isinstance(event, DrainRequested):
        because = f"{event.by} again: ending at once"
    else:
        because = "the grace to save a snapshot is over: ending at once"
    killing = replace(
        run, state=JobState.KILLING, deadline=now + KILL_SECONDS, message=because
    )
    return killing, (Say(because), Kill(because))


def _kill_again(run: Run, _event: Event, now: float) -> Step:
    because = (
        "SIGKILL did not end the attempt: a process may hang in the driver "
        "(D state), which only a reboot ends"
    )
    said = () if run.message == because else (Say(because),)
    killing = replace(run, deadline=now + KILL_SECONDS, message=because)
    return killing, (*said, Kill(because))


def _exited(run: Run, event: Event, now: float) -> Step:
    assert isinstance(event, Exited)  # noqa: S101  # by the table
    diagnosis = diagnose(event.evidence)
    history = run.history.updated(
        cause=diagnosis.cause,
        last_step=event.last_step,
        snapshot_step=event.snapshot_step,
    )
    over = replace(run, history=history, deadline=None)
    if event.evidence.finished:
        message = "finished"
        ended = replace(over, state=JobState.FINISHED, message=message)
        return ended, (End(EXIT_FINISHED),)
    if event.evidence.drained:
        return _end_drained(over, _where_drained(event.last_step))
    return _failed(over, event, diagnosis, now)


def _where_drained(step: int | None) -> str:
    return f"drained at step {step}" if step else "drained before the first step"


def _failed(run: Run, event: Exited, diagnosis: Diagnosis, now: float) -> Step:
    if run.drain_by is not None:
        because = "the run was asked to end; run it again to resume"
        remedy = Remedy(kind=RemedyKind.NONE, because=because)
        verdict = Verdict(remedy=remedy, plan=run.plan)
    else:
        verdict = run.policy.decide(diagnosis, event.evidence, run.history, run.plan)
    record = RecordIncident(
        attempt=run.attempt,
        diagnosis=diagnosis,
        remedy=verdict.remedy,
        failed_step=event.last_step,
    )
    history = run.history.updated(remedy=verdict.remedy.kind)
    incident = OpenIncident(attempt=run.attempt, failed_step=event.last_step, at=now)
    failed = replace(run, history=history, plan=verdict.plan, open_incident=incident)
    next_run, effects = _after_verdict(failed, verdict.remedy, now)
    return next_run, (record, *effects)


def _after_verdict(run: Run, remedy: Remedy, now: float) -> Step:
    if remedy.kind is RemedyKind.STOP:
        ended = replace(run, state=JobState.GAVE_UP, message=remedy.because)
        return ended, (Say(f"gave up: {remedy.because}"), End(EXIT_GAVE_UP))
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
    said = Say(f"{message}; run the same command again to resume")
    return ended, (said, End(EXIT_DRAINED))


def _rows() -> tuple[Transition, ...]:
    s = JobState
    after_exit = (s.FINISHED, s.DRAINED, s.WAITING, s.GAVE_UP)
    asked = (s.FINISHED, s.DRAINED)
    exited = "the attempt ended"
    rows = (
        (s.WAITING, TimeIsUp, (s.WAITING,), _check_gate, "back-off over: check the gate"),
        (s.WAITING, GateHeld, (s.WAITING,), _gate_held, "something is left: wait"),
        (s.WAITING, GateClear, (s.LAUNCHING,), _launch, "gate clear"),
        (s.WAITING, DrainRequested, (s.DRAINED,), _drained_at_rest, "drain"),
        (s.LAUNCHING, Spawned, (s.RUNNING, s.DRAINING), _spawned, "training started"),
        (s.LAUNCHING, SpawnFailed, (s.GAVE_UP,), _spawn_failed, "could not start"),
        (s.LAUNCHING, DrainRequested, (s.LAUNCHING,), _note_drain, "drain: noted"),
        (s.RUNNING, Learned, (s.RUNNING,), _learned, "news"),
        (s.RUNNING, Told, (s.RUNNING,), _told, "a sentence"),
        (s.RUNNING, SnapshotFailed, (s.RUNNING,), _unsaved, "not saved"),
        (s.RUNNING, DrainRequested, (s.DRAINING,), _drain, "drain"),
        (s.RUNNING, Exited, after_exit, _exited, exited),
        (s.DRAINING, Learned, (s.DRAINING,), _learned, "news"),
        (s.DRAINING, Told, (s.DRAINING,), _told, "a sentence"),
        (s.DRAINING, SnapshotFailed, (s.DRAINING,), _unsaved, "not saved"),
        (s.DRAINING, DrainRequested, (s.KILLING,), _kill, "drain again"),
        (s.DRAINING, TimeIsUp, (s.KILLING,), _kill, "grace over"),
        (s.DRAINING, Exited, asked, _exited, exited),
        (s.KILLING, TimeIsUp, (s.KILLING,), _kill_again, "still there"),
        (s.KILLING, Exited, asked, _exited, exited),
    )  # fmt: skip
    return tuple(
        Transition(source=a, event=b, targets=c, act=d, label=e)
        for a, b, c, d, e in rows
    )


TABLE: Mapping[tuple[JobState, type], Transition] = {
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
    lines += [f"    {state} --> [*]" for state in JobState if state.ended]
    return "\n".join(lines)
