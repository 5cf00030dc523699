"""A snapshot that could not be saved: an incident, although training goes on."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.incident_kind import IncidentKind
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.lifecycle.events import SnapshotFailed

SIGNATURE = "snapshot"

ON_DISK = (
    "Until it can be written again, what is lost in a crash of the machine grows. The "
    "last good snapshot stays; the next is tried at the next interval. Look at the disk "
    "of the state directory: its room, its quota, its health."
)
IN_MEMORY = (
    "A crashed process now goes on from the newest snapshot on disk, which is older. "
    "More room in the tmpfs, another one (snapshots.memory of the spec) or a smaller "
    "state would help."
)


def incident_of(event: SnapshotFailed, *, attempt: int) -> RecordIncident:
    """What to write down of it."""
    on_disk = "training goes on, and the last good snapshot stays"
    in_memory = "training goes on, and snapshots go to disk alone"
    return RecordIncident(
        attempt=attempt,
        happened=(
            IncidentKind.UNSAVED_IN_MEMORY
            if event.in_memory
            else IncidentKind.UNSAVED_ON_DISK
        ),
        diagnosis=Diagnosis(
            cause=Cause.DISK_FULL if event.no_room else Cause.UNKNOWN,
            because=(Reason(event.because, SIGNATURE),),
            advice=IN_MEMORY if event.in_memory else ON_DISK,
        ),
        remedy=Remedy(
            kind=RemedyKind.GO_ON, because=in_memory if event.in_memory else on_disk
        ),
        failed_step=event.step,
    )
