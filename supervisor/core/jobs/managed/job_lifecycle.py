"""A managed job's life as one table: whether it waits, runs, ends or has ended.

1. A phase and an event that the table does not name change nothing.
2. Nothing here acts: ``step`` returns what is to be done, and the daemon does it.
3. What people want is written down before it is done; ``Decline`` means: not at all.
4. A run that an earlier daemon left may still train: until it is adopted its GPUs are
   nobody else's, and what people want of it is done then.
5. A job at rest starts again only when somebody says so, except that a job which lost
   one GPU of many takes its turn again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
from supervisor.core.jobs.managed.job_phase import (
    IDLE,
    ORPHANS,
    SUPERVISED,
    WAITS,
    JobLifecycle,
    JobPhase,
    at_rest,
    never_begun,
)
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import counted

RETRY_SECONDS_MOST = 60.0
"""What could not be done is tried again 1, 2, 4 … seconds later, at most this."""

JobStep = tuple[JobLifecycle, tuple[JobEffect, ...]]
JobAct = Callable[[JobLifecycle, JobEvent, float], JobStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTransition:
    """One row of the table."""

    targets: tuple[JobPhase, ...]
    """Where it may lead; checked by the tests."""
    act: JobAct


def step(job: JobLifecycle, event: JobEvent, *, now: float) -> JobStep:
    """What becomes of ``job`` when ``event`` happens at ``now`` (monotonic seconds)."""
    transition = TABLE.get((job.phase, type(event)))
    return (job, ()) if transition is None else transition.act(job, event, now)


# --- asked for by people --------------------------------------------------------------


def _decline(sentence: str) -> JobAct:
    def declined(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
        return job, (Decline(sentence.format(job=job.job)),)

    return declined


def _become(phase: JobPhase) -> JobAct:
    def become(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
        return replace(job, phase=phase), ()

    return become


def _submit(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
    return JobLifecycle(job=job.job), ()


def _enqueue(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
    """What was in the way before is not known to be still."""
    return _queued(replace(job, retry_at=0.0)), ()


def _queued(job: JobLifecycle) -> JobLifecycle:
    return replace(job, phase=JobPhase.QUEUED, because=WAITS)


def _start_finished(job: JobLifecycle, event: JobEvent, now: float) -> JobStep:
    assert isinstance(event, StartRequested)  # noqa: S101  # by the table
    return (_enqueue if event.fresh else HAS_FINISHED)(job, event, now)


def _dequeue(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
    return at_rest(job), ()


def _stop(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    assert isinstance(event, StopRequested)  # noqa: S101  # by the table
    end = EndRun(event.by, at_once=event.at_once)
    return replace(job, phase=JobPhase.STOPPING), (end,)


def _restart(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    assert isinstance(event, RestartRequested)  # noqa: S101  # by the table
    return replace(job, phase=JobPhase.RESTARTING), (EndRun(event.by),)


HAS_FINISHED = _decline(
    "{job} has finished; `trainwarden start --fresh {job}` begins it anew"
)


# --- told by the scheduler ------------------------------------------------------------


def _await_turn(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    assert isinstance(event, TurnAwaited)  # noqa: S101  # by the table
    return replace(job, because=event.because), ()


def _run(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    assert isinstance(event, RunStarted)  # noqa: S101  # by the table
    held = replace(job, gpus=event.gpus)
    return _looked_after(held, JobPhase.RUNNING), (NoteStarted(),)


def _adopt(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
    return _looked_after(job, JobPhase.RUNNING), ()


def _adopt_stopping(job: JobLifecycle, _event: JobEvent, _now: float) -> JobStep:
    return _looked_after(job, JobPhase.STOPPING), (EndRun("an earlier stop"),)


def _adopt_restarting(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    """Where no attempt is left, the next one is the restart."""
    assert isinstance(event, RunAdopted)  # noqa: S101  # by the table
    if not event.trains:
        return _looked_after(job, JobPhase.RUNNING), (NoteStarted(),)
    return _looked_after(job, JobPhase.RESTARTING), (EndRun("an earlier restart"),)


def _looked_after(job: JobLifecycle, phase: JobPhase) -> JobLifecycle:
    return replace(job, phase=phase, retry_at=0.0, tries=0)


def _postpone(job: JobLifecycle, event: JobEvent, now: float) -> JobStep:
    """An orphan that cannot be adopted goes on by itself, so it is never given up."""
    assert isinstance(event, StartPostponed | StartDenied)  # noqa: S101  # by the table
    what = "be looked after" if job.active else "start"
    because = f"cannot {what}, tried again and again: {event.because}"
    later = replace(
        job,
        because=because,
        retry_at=now + min(2.0**job.tries, RETRY_SECONDS_MOST),
        tries=min(job.tries + 1, 10),
    )
    return later, _once(job, because, because, LogLevel.WARNING)


def _deny(job: JobLifecycle, event: JobEvent, now: float) -> JobStep:
    assert isinstance(event, StartDenied)  # noqa: S101  # by the table
    shown = replace(job.ended or never_begun(job.job), message=event.because)
    denied = at_rest(replace(job, because=event.because, ended=shown, ended_at=now))
    text = f"cannot start: {event.because}"
    return denied, _once(job, event.because, text, LogLevel.ERROR)


def _trouble(job: JobLifecycle, event: JobEvent, _now: float) -> JobStep:
    assert isinstance(event, RunTroubled)  # noqa: S101  # by the table
    text = f"cannot be looked after: {event.because}"
    told = _once(job, event.because, text, LogLevel.WARNING)
    return replace(job, because=event.because), told


def _once(
    job: JobLifecycle, because: str, text: str, level: LogLevel
) -> tuple[JobEffect, ...]:
    """What is tried again and again is told when it changes."""
    return () if job.because == because else (Announce(text, level),)


def _end(job: JobLifecycle, event: JobEvent, now: float) -> JobStep:
    assert isinstance(event, RunEnded)  # noqa: S101  # by the table
    ended = replace(job, gpus=(), ended=event.status, ended_at=now)
    if event.another_turn and job.phase is JobPhase.RUNNING:
        told = Announce("takes its turn again, for another GPU")
        return _queued(ended), (told,)
    if event.status.state is JobState.DRAINED:
        return at_rest(ended), (Announce(f"`trainwarden start {job.job}` resumes it"),)
    if event.status.state is JobState.FINISHED:
        return at_rest(ended), (Announce(_finished(event.status)),)
    return at_rest(ended), ()


def _finished(status: JobStatus) -> str:
    """That it did, and how far it came."""
    steps = "" if status.step is None else f" at step {status.step}"
    return f"finished{steps}, in {counted(status.attempt, 'attempt')}"


def _end_restarting(job: JobLifecycle, event: JobEvent, now: float) -> JobStep:
    """One that finished before it was restarted has nothing left to do."""
    assert isinstance(event, RunEnded)  # noqa: S101  # by the table
    ended = replace(job, gpus=(), ended=event.status, ended_at=now)
    if event.status.state is JobState.FINISHED:
        return at_rest(ended), (NoteStarted(), Announce(_finished(event.status)))
    return _queued(ended), ()


# --- the table ------------------------------------------------------------------------


def _rows() -> tuple[
    tuple[tuple[JobPhase, ...], type, tuple[JobPhase, ...], JobAct], ...
]:
    p = JobPhase
    rest = (p.STOPPED, p.FINISHED)
    active = (*SUPERVISED, *ORPHANS)
    to_run = (p.RUNNING, p.RESTARTING, p.ORPHANED, p.ORPHANED_RESTARTING)
    runs = _decline("{job} runs; stop it first")
    taken = _decline("{job} runs; stop it first, or choose another name")
    return (
        (IDLE, SubmitRequested, (p.QUEUED,), _submit),
        (active, SubmitRequested, active, taken),
        (IDLE[:2], StartRequested, (p.QUEUED,), _enqueue),
        ((p.FINISHED,), StartRequested, (p.QUEUED, p.FINISHED), _start_finished),
        (to_run, StartRequested, to_run, _decline("{job} runs already")),
        ((p.STOPPING,), StartRequested, (p.RESTARTING,), _become(p.RESTARTING)),
        ((p.ORPHANED_STOPPING,), StartRequested, (p.ORPHANED_RESTARTING,), _become(p.ORPHANED_RESTARTING)),
        ((p.QUEUED,), StopRequested, rest, _dequeue),
        (SUPERVISED, StopRequested, (p.STOPPING,), _stop),
        (ORPHANS, StopRequested, (p.ORPHANED_STOPPING,), _become(p.ORPHANED_STOPPING)),
        (IDLE[:2], RestartRequested, (p.QUEUED,), _enqueue),
        ((p.FINISHED,), RestartRequested, (p.FINISHED,), HAS_FINISHED),
        (SUPERVISED, RestartRequested, (p.RESTARTING,), _restart),
        (ORPHANS, RestartRequested, (p.ORPHANED_RESTARTING,), _become(p.ORPHANED_RESTARTING)),
        (IDLE, ForgetRequested, (p.FORGOTTEN,), _become(p.FORGOTTEN)),
        (active, ForgetRequested, active, runs),
        ((p.QUEUED,), TurnAwaited, (p.QUEUED,), _await_turn),
        ((p.QUEUED,), RunStarted, (p.RUNNING,), _run),
        ((p.ORPHANED,), RunAdopted, (p.RUNNING,), _adopt),
        ((p.ORPHANED_STOPPING,), RunAdopted, (p.STOPPING,), _adopt_stopping),
        ((p.ORPHANED_RESTARTING,), RunAdopted, (p.RESTARTING, p.RUNNING), _adopt_restarting),
        ((p.QUEUED, *ORPHANS), StartPostponed, (p.QUEUED, *ORPHANS), _postpone),
        ((p.QUEUED,), StartDenied, rest, _deny),
        (ORPHANS, StartDenied, ORPHANS, _postpone),
        (SUPERVISED, RunTroubled, SUPERVISED, _trouble),
        ((p.RUNNING,), RunEnded, (p.QUEUED, *rest), _end),
        ((p.STOPPING,), RunEnded, rest, _end),
        ((p.RESTARTING,), RunEnded, (p.QUEUED, p.FINISHED), _end_restarting),
    )  # fmt: skip


TABLE: Mapping[tuple[JobPhase, type], JobTransition] = {
    (source, event): JobTransition(targets=targets, act=act)
    for sources, event, targets, act in _rows()
    for source in sources
}
