"""Handlers of progress: what the life of a run makes of news from its attempt."""

from collections.abc import Sequence
from dataclasses import replace

from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.lifecycle.effects import Effect, Say, UpdateIncident
from supervisor.core.lifecycle.events import (
    Advised,
    Applied,
    NoticeReceived,
    ProgressReported,
    ProofReported,
    RestartDue,
)
from supervisor.core.lifecycle.live_incidents import saved_again
from supervisor.core.lifecycle.run_state import RunPhase, RunState, Step
from supervisor.core.memory.fit_memory import SizePeaks, another_call, noted, remembered
from supervisor.core.remediation.confirmation import NAMES, sentence, unmet, without
from supervisor.core.remediation.history import AttemptHistory, weakest
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.text.log_level import LogLevel
from supervisor.wire.snapshots.proof import Proof

GOES_ON = "the resume was disproved, and the run goes on from the newer snapshot"


def learned(run: RunState, event: ProgressReported, now: float) -> Step:
    """News of the attempt itself."""
    run, again = saved_again(run, event.snapshot_step)
    known = _news(event, run.history.last)
    if event.first_step is not None and run.history.last is not None:
        known.setdefault("restored_step", run.history.last.restored_step or 0)
    overrides = settled(run.overrides, event)
    newer = replace(run, history=run.history.updated(**known), overrides=overrides)
    if event.slices is not None:
        newer = _confirmed(newer, "slice_size", in_force=True)
    said: tuple[Effect, ...] = ()
    if event.first_step is not None:
        newer, said = judged(newer, stepped=True)
    followed, effects = _follow_incident(newer, event, now)
    effects = (*effects, *again, *said)
    sliced = [a for a in run.history.ends if a.remedy is RemedyKind.MICROBATCH]
    if sliced and _settles(run.overrides, event):
        update = UpdateIncident(
            attempt=sliced[-1].number,
            recovery=sliced[-1].recovery,
            slices=event.slices,
            slices_measured=event.measured,
        )
        effects = (*effects, update)
    return followed, effects


def _settles(overrides: Overrides, event: ProgressReported) -> bool:
    """Whether it tells how many slices there are where the remedy could not: what was
    measured, or what is done where nothing can be."""
    plan = overrides.plan
    open_yet = plan is not None and plan.calibrate and not event.trial
    return event.measured or (open_yet and event.slices is not None)


_NEWS = (
    "fit", "model", "batch", "slice_size", "peak_bytes", "limit_bytes", "jit",
    "snapshot_step", "restored_step",
)  # fmt: skip


def _news(event: ProgressReported, last: AttemptHistory | None) -> dict[str, object]:
    """What changes in the attempt's history.

    What was measured belongs to the size and the call of ``fit`` that it was measured
    in: it goes when another size is in force, or another call begins.
    """
    news: dict[str, object] = {name: getattr(event, name) for name in _NEWS}
    known = {name: value for name, value in news.items() if value is not None}
    if event.first_step is not None or event.peak_bytes is not None:
        known["stepped"] = True
    if last is None:
        return known
    before, after = last.fit_memory, (event.fit, event.batch, event.model)
    if another_call(before, fit=after[0], batch=after[1], model=after[2]):
        earlier = remembered(last.earlier_fits, before)
        gone = dict.fromkeys(("batch", "model", "slice_size", "peak_bytes", "jit"))
        peaks = _peaks((), event, batch=event.batch)
        return {
            **gone,
            "stepped": False,
            "earlier_fits": earlier,
            **known,
            "peaks": peaks,
        }
    known["peaks"] = _peaks(last.peaks, event, batch=event.batch or last.batch)
    if event.slice_size not in {None, last.slice_size or last.batch}:
        return {"peak_bytes": None, "stepped": False, **known}
    return known


def _peaks(
    before: Sequence[SizePeaks], event: ProgressReported, *, batch: int | None
) -> tuple[SizePeaks, ...]:
    """All that this call saw, by the size of a slice."""
    size = event.slice_size or batch
    if event.peak_bytes is None or size is None:
        return tuple(before)
    seen = SizePeaks(
        slice_size=size,
        usual_bytes=event.usual_bytes or event.peak_bytes,
        highest_bytes=event.peak_bytes,
        steps=event.peak_steps or 1,
    )
    return noted(before, seen)


def settled(overrides: Overrides, event: ProgressReported) -> Overrides:
    """What was measured once holds for the next attempt: it need not measure again."""
    plan = overrides.plan
    if plan is None or not event.measured or event.slice_size is None:
        return overrides
    found = replace(
        plan,
        slice_size=event.slice_size,
        slices=event.slices or plan.slices,
        calibrate=False,
    )
    return replace(overrides, plan=found)


def _follow_incident(run: RunState, event: ProgressReported, now: float) -> Step:
    """What the incident cost. Steps of the script's own may be saved, as those of ``fit`` are,
    and tell then of their first one; where nothing was saved they are done from the first."""
    incident, last = run.open_incident, run.history.last
    if incident is None or last is None:
        return run, ()
    since = incident.at
    saved = any(one.snapshot_step for one in run.history.attempts)
    anew = event.own_step and not (saved or last.restored_step)
    done = event.first_step is not None or anew
    if not (done or event.restored_step is not None or event.deviations):
        return run, ()
    lost, restored = None, 0 if anew else last.restored_step
    if incident.failed_step is not None and restored is not None:
        reached = max(incident.failed_step, _reached_before(run, incident.attempt))
        lost = max(reached - restored, 0)
    update = UpdateIncident(
        attempt=incident.attempt,
        recovery=incident.recovery,
        restored_step=restored,
        lost_steps=lost,
        downtime_seconds=_seconds_down(event, now, since=since)
        if done and since is not None
        else None,
        deviations=event.deviations,
    )
    return replace(run, open_incident=None if done else incident), (update,)


def _saved(end: AttemptHistory) -> bool:
    """Whether it ended on request: what follows goes on for the incident before it."""
    return end.remedy_step is None and end.remedy in {None, RemedyKind.RESTART}


def _reached_before(run: RunState, attempt: int) -> int:
    """How many steps of the run had been done before ``attempt`` failed: it may not have
    come as far. 0 where it did not fail but saved its state: the incident before it tells
    of those that are left to be done again."""
    ends = run.history.ends[:-1]
    if any(_saved(end) for end in ends if end.number == attempt):
        return 0
    return _furthest(ends)


def _furthest(ends: Sequence[AttemptHistory]) -> int:
    return max((end.last_step or 0 for end in ends), default=0)


def done_again(run: RunState, last_step: int | None) -> tuple[Effect, ...]:
    """What was done again since the newest incident, where the newest attempt fails at
    ``last_step`` before the steps are made up for: that incident was told of all of them,
    and the one that begins now is told of the rest."""
    ends = run.history.ends
    failed = [at for at, end in enumerate(ends[:-1]) if not _saved(end) and end.started]
    if not failed or last_step is None:
        return ()
    about, since = ends[failed[-1]], ends[failed[-1] + 1 :]
    restored = [end.restored_step for end in since if end.restored_step is not None]
    # One of those since, which a person ended at once, may have come further than this one.
    reached = max(last_step, _furthest(since[:-1]))
    if not restored or reached >= _furthest(ends[: failed[-1] + 1]):
        return ()
    update = UpdateIncident(
        attempt=about.number,
        recovery=about.recovery,
        restored_step=restored[0],
        lost_steps=max(reached - restored[0], 0),
    )
    return (update,)


def _seconds_down(event: ProgressReported, now: float, *, since: float) -> float:
    """Seconds from ``since`` to the step: one is heard of later than it is made, and long
    after that where there was no supervisor. The file may hold anything."""
    at = now if event.at is None else min(event.at, now)
    return max(at - since, 0.0)


def without_a_step(run: RunState, at: float) -> Step:
    """The attempt after an incident came to no step until ``at`` (monotonic seconds), or
    never began: the time until then is lost to that incident all the same."""
    incident = run.open_incident
    closed = replace(run, open_incident=None)
    if incident is None or incident.at is None:
        return closed, ()
    update = UpdateIncident(
        attempt=incident.attempt,
        recovery=incident.recovery,
        downtime_seconds=max(at - incident.at, 0.0),
    )
    return closed, (update,)


def applied(run: RunState, event: Applied, _now: float) -> Step:
    """What a remedy asked for is in force, or is not."""
    if event.name not in NAMES:
        return run, ()  # the file may hold anything
    return _confirmed(run, event.name, in_force=event.in_force), ()


def _confirmed(run: RunState, name: str, *, in_force: bool) -> RunState:
    last = run.history.last
    if last is None or last.applied is None:
        return run
    said = {**last.applied, name: in_force}
    return replace(run, history=run.history.updated(applied=said))


def judged(run: RunState, *, stepped: bool) -> Step:
    """Without what turned out not to be in force, and said so: once for each attempt.

    ``stepped``: its first step is made, so what is not confirmed will not be.
    """
    last = run.history.last
    found = {} if last is None else unmet(run.overrides, last, stepped=stepped)
    new = (
        {} if last is None else {n: v for n, v in found.items() if n not in last.unmet}
    )
    if last is None or not new:
        return run, ()
    history = run.history.updated(
        unmet={**last.unmet, **new},
        overrides=last.overrides and without(last.overrides, new),
    )
    text = f"attempt {run.attempt}: {sentence(new)}"
    effects: tuple[Effect, ...] = (Say(text, LogLevel.WARNING),)
    if run.open_incident is not None:
        about = run.open_incident
        note = UpdateIncident(attempt=about.attempt, recovery=about.recovery, note=text)
        effects = (*effects, note)
    left = without(run.overrides, new)
    return replace(run, history=history, overrides=left), effects


def told(run: RunState, event: NoticeReceived, _now: float) -> Step:
    """A sentence for the person who runs it."""
    last, effects = run.history.last, (Say(event.sentence),)
    if event.unpromised is None or last is None:
        return run, effects
    first = weakest((last.unpromised, event.unpromised))
    return replace(run, history=run.history.updated(unpromised=first)), effects


def advised(run: RunState, event: Advised, _now: float) -> Step:
    """What makes the attempt slower than it need be: said once a run, kept with each."""
    last = run.history.last
    if last is None or last.advisories == event.advisories:
        return run, ()
    known = run.history.advisories
    new = [one for one in event.advisories if one.kind not in known]
    said = tuple(
        Say(f"advice: {one.sentence}. {one.advice}", LogLevel.WARNING) for one in new
    )
    history = run.history.updated(advisories=event.advisories)
    return replace(run, history=history), said


def proof_told(run: RunState, event: ProofReported, _now: float) -> Step:
    """A proof began, or came to its end; where it ends the attempt, another follows."""
    proof = event.proof
    known = replace(run, history=run.history.updated(proof=proof))
    if proof.result is Proof.BEGUN:
        return known, ()
    if event.ends and run.phase is RunPhase.RUNNING:
        known = replace(known, restart=RestartDue(GOES_ON))
    wrong = proof.result is Proof.DIFFERS
    level = LogLevel.WARNING if wrong else LogLevel.INFO
    said = Say(f"attempt {run.attempt}: {proof.sentence}", level)
    ended = [one for one in run.history.ends[:-1] if one.started]
    if not ended:
        return known, (said,)
    about = ended[-1]
    update = UpdateIncident(attempt=about.number, recovery=about.recovery, proof=proof)
    return known, (said, update)
