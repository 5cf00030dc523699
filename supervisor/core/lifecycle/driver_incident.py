"""A GPU driver that hangs beyond help: an incident, although training goes on."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.incident_kind import IncidentKind
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.lifecycle.events import DriverStuck

SIGNATURE = "nvml"

ADVICE = (
    "Drain the jobs of this machine while they still move, and reboot it. What hangs is "
    "the kernel's side of the driver: nothing that is started anew gets past it. If it "
    "comes back, look for Xids in the kernel log and report them to NVIDIA."
)


def stuck(event: DriverStuck, *, attempt: int) -> RecordIncident:
    """What to write down of it."""
    return RecordIncident(
        attempt=attempt,
        happened=IncidentKind.DRIVER_STUCK,
        diagnosis=Diagnosis(
            cause=Cause.UNKILLABLE,
            because=(Reason(event.because, SIGNATURE),),
            advice=ADVICE,
        ),
        remedy=Remedy(
            kind=RemedyKind.GO_ON, because="training goes on as long as it can"
        ),
        failed_step=None,
    )
