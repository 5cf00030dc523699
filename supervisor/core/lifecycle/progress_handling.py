"""What the life of a run makes of news from its attempt."""

from dataclasses import replace

from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.lifecycle.driver_incident import stuck
from supervisor.core.lifecycle.effects import RecordIncident, Say, UpdateIncident
from supervisor.core.lifecycle.events import (
    DriverStuck,
    Event,
    MemoryHigh,
    NoticeReceived,
    ProgressReported,
    SnapshotFailed,
)
from supervisor.core.lifecycle.memory_incident import warning
from supervisor.core.lifecycle.run_state import RunState, Step
from supervisor.core.lifecycle.snapshot_incident import incident_of
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.size_peaks import SizePeaks, noted


def learned(run: RunState, event: Event, now: float) -> Step:
    """News of the attempt itself."""
    assert isinstance(event, ProgressReported)  # noqa: S101  # by the table
    names = (
        "batch", "slice_size", "peak_bytes", "limit_bytes", "jit", "snapshot_step",
        "restored_step",
    )  # fmt: skip
    news = {name: getattr(event, name) for name in names}
    known = {name: value for name, value in news.items() if value is not None}
    known |= _peaks(run, event)
    if event.first_step is not None and run.history.last is not None:
        known.setdefault("restored_step", run.history.last.restored_step or 0)
    treatment = settled(run.treatment, event)
    newer = replace(run, history=run.history.updated(**known), treatment=treatment)
    followed, effects = _follow_incident(newer, event, now)
    sliced = [a for a in run.history.attempts if a.remedy is RemedyKind.MICROBATCH]
    if sliced and event.measured:
        update = UpdateIncident(attempt=sliced[-1].number, slices=event.slices)
        effects = (*effects, update)
    return followed, effects


def _peaks(run: RunState, event: ProgressReported) -> dict[str, object]:
    """With a peak: all that this attempt saw, by the size of a slice."""
    last = run.history.last
    if last is None or event.peak_bytes is None:
        return {}
    size = event.slice_size or event.batch or last.batch
    if size is None:
        return {}
    seen = SizePeaks(
        slice_size=size,
        usual_bytes=event.usual_bytes or event.peak_bytes,
        highest_bytes=event.peak_bytes,
        steps=event.peak_steps or 1,
    )
    return {"peaks": noted(last.peaks, seen)}


def settled(treatment: Overrides, event: ProgressReported) -> Overrides:
    """What was measured once holds for the next attempt: it need not measure again."""
    plan = treatment.plan
    if plan is None or not event.measured or event.slice_size is None:
        return treatment
    found = replace(
        plan,
        slice_size=event.slice_size,
        slices=event.slices or plan.slices,
        calibrate=False,
    )
    return replace(treatment, plan=found)


def _follow_incident(run: RunState, event: ProgressReported, now: float) -> Step:
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


def told(run: RunState, event: Event, _now: float) -> Step:
    """A sentence for the person who runs it."""
    assert isinstance(event, NoticeReceived)  # noqa: S101  # by the table
    return run, (Say(event.sentence),)


def unsaved(run: RunState, event: Event, _now: float) -> Step:
    """The first of an attempt is an incident: a full disk fails at each interval."""
    assert isinstance(event, SnapshotFailed)  # noqa: S101  # by the table
    return _first(run, incident_of(event, attempt=run.attempt))


def memory_high(run: RunState, event: Event, _now: float) -> Step:
    """Memory is nearly full: an incident, once an attempt."""
    assert isinstance(event, MemoryHigh)  # noqa: S101  # by the table
    record = warning(event, attempt=run.attempt)
    return (run, ()) if record is None else _first(run, record)


def driver_stuck(run: RunState, event: Event, _now: float) -> Step:
    """The GPU driver hangs: an incident, once an attempt."""
    assert isinstance(event, DriverStuck)  # noqa: S101  # by the table
    return _first(run, stuck(event, attempt=run.attempt))


def _first(run: RunState, record: RecordIncident) -> Step:
    if record.happened in run.unsaved:
        return run, ()
    return replace(run, unsaved=run.unsaved | {record.happened}), (record,)
