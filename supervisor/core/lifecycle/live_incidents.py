"""Incidents that an attempt outlives: a snapshot that could not be saved, memory that is
nearly full, a GPU driver that hangs beyond help."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import (
    Diagnosis,
    IncidentKind,
    Reason,
    Remedy,
    RemedyKind,
)
from supervisor.core.lifecycle.effects import (
    Effect,
    RecordIncident,
    ReviseAdvice,
    Say,
)
from supervisor.core.lifecycle.events import (
    DiskRoom,
    DriverStuck,
    MemoryHigh,
    SnapshotFailed,
)
from supervisor.core.lifecycle.memory_incident import CAUSES
from supervisor.core.lifecycle.run_state import DiskSaves, RunState, Step
from supervisor.core.memory.forecast import Resource
from supervisor.core.text.units import format_size

ON_DISK = (
    "Until it can be written again, what is lost in a crash of the machine grows. The "
    "last good snapshot stays; the next is tried at the next interval. Look at the disk "
    "of the state directory: its room, its quota, its health."
)
ON_DISK_AGAIN = (
    "Since then it could be written again: there is a newer snapshot on disk, of step {}, "
    "and a crash of the machine loses no more than it did before. Give that disk more room "
    "if the run, or what else is there, will need it again."
)
IN_MEMORY = (
    "A crashed process now goes on from the newest snapshot on disk, which is older. "
    "More room in the tmpfs, another one (snapshots.memory of the spec) or a smaller "
    "state would help."
)

ROOM = "room"
"""Signature of what was free on the disk, and held there."""

HIGH = {
    Resource.DEVICE: IncidentKind.DEVICE_MEMORY_HIGH,
    Resource.HOST: IncidentKind.HOST_MEMORY_HIGH,
}
"""Resources that there are warnings about; the blocks left are no level of their own."""

HIGH_ADVICE = (
    "Nothing has failed. The next longer sequence, validation or epoch may not fit: see "
    "`trainwarden memory JOB` for who holds what, and leave more room if this is unexpected."
)

STUCK_ADVICE = (
    "Drain the jobs of this machine while they still move, and reboot it. What hangs is "
    "the kernel's side of the driver: nothing that is started anew gets past it. If it "
    "comes back, look for Xids in the kernel log and report them to NVIDIA."
)


def unsaved(run: RunState, event: SnapshotFailed, _now: float) -> Step:
    """The first of an attempt is an incident: a full disk fails at each interval."""
    known, effects = _first(run, incident_of(event, attempt=run.attempt))
    if event.in_memory or run.on_disk not in _FAILS:
        return known, effects
    if run.on_disk is DiskSaves.AGAIN:
        effects = (*effects, _revised(ON_DISK))
    return replace(known, on_disk=_FAILS[run.on_disk]), effects


_FAILS = {
    DiskSaves.SAVED: DiskSaves.FAILING,
    DiskSaves.AGAIN: DiskSaves.FAILING_ANEW,
}
_FAILING = frozenset(_FAILS.values())
"""Where a snapshot that is not written leads, and where one that is ends something."""


def saved_again(run: RunState, step: int | None) -> Step:
    """A snapshot of ``step`` is on disk; None: none is new there. Told once where an
    earlier one could not be written, and said with its incident."""
    if step is None or run.on_disk not in _FAILING:
        return run, ()
    effects: tuple[Effect, ...] = (_revised(ON_DISK_AGAIN.format(step)),)
    if run.on_disk is DiskSaves.FAILING:
        said = f"the state directory can be written again: a snapshot of step {step} is on disk"
        effects = (*effects, Say(said))
    return replace(run, on_disk=DiskSaves.AGAIN), effects


def _revised(advice: str) -> ReviseAdvice:
    return ReviseAdvice(happened=IncidentKind.UNSAVED_ON_DISK, advice=advice)


def incident_of(event: SnapshotFailed, *, attempt: int) -> RecordIncident:
    """The record of a snapshot that could not be saved."""
    kept, advice = "and the last good snapshot stays", ON_DISK
    happened = IncidentKind.UNSAVED_ON_DISK
    if event.in_memory:
        kept, advice = "and snapshots go to disk alone", IN_MEMORY
        happened = IncidentKind.UNSAVED_IN_MEMORY
    room = () if event.room is None else (Reason(_room(event.room), ROOM),)
    return _record(
        happened,
        Cause.DISK_FULL if event.no_room else Cause.UNKNOWN,
        Reason(event.because, "snapshot"),
        *room,
        attempt=attempt,
        step=event.step,
        advice=advice,
        goes_on=f"training goes on, {kept}",
    )


def _room(room: DiskRoom) -> str:
    """Of whose making the want of it is, too."""
    free = room.free_bytes
    known = "what is free is not known" if free is None else f"{format_size(free)} free"
    held = room.held_bytes
    own = f", and snapshots of this run hold {format_size(held)}" if held else ""
    return f"In {room.directory}: {known}{own}."


def memory_high(run: RunState, event: MemoryHigh, _now: float) -> Step:
    """Memory is nearly full: an incident, once an attempt."""
    record = warning(event, attempt=run.attempt)
    return (run, ()) if record is None else _first(run, record)


def warning(event: MemoryHigh, *, attempt: int) -> RecordIncident | None:
    """The record of a warning; None for a resource that has none."""
    happened, level = HIGH.get(event.resource), event.level
    if happened is None:
        return None
    used, capacity = format_size(level.used), format_size(level.capacity)
    return _record(
        happened,
        CAUSES[event.resource],
        Reason(f"{used} of {capacity} are used ({level.part:.0%}).", "threshold"),
        attempt=attempt,
        step=event.step,
        advice=HIGH_ADVICE,
    )


def driver_stuck(run: RunState, event: DriverStuck, _now: float) -> Step:
    """The GPU driver hangs: an incident, once an attempt."""
    record = _record(
        IncidentKind.DRIVER_STUCK,
        Cause.UNKILLABLE,
        Reason(event.because, "nvml"),
        attempt=run.attempt,
        advice=STUCK_ADVICE,
        goes_on="training goes on as long as it can",
    )
    return _first(run, record)


def _record(
    happened: IncidentKind,
    cause: Cause,
    *reasons: Reason,
    attempt: int,
    advice: str,
    step: int | None = None,
    goes_on: str = "training goes on",
) -> RecordIncident:
    return RecordIncident(
        attempt=attempt,
        happened=happened,
        diagnosis=Diagnosis(cause=cause, because=reasons, advice=advice),
        remedy=Remedy(kind=RemedyKind.GO_ON, because=goes_on),
        failed_step=step,
    )


def _first(run: RunState, record: RecordIncident) -> Step:
    if record.happened in run.unsaved:
        return run, ()
    return replace(run, unsaved=run.unsaved | {record.happened}), (record,)
