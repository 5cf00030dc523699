"""A GPU driver that hangs while training goes on."""

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import IncidentKind, RemedyKind
from supervisor.core.gpu.probe_supervision import REBOOT
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.lifecycle.events import DriverStuck
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.lifecycle.table import step
from supervisor.core.remediation.policy import Policy

POLICY = Policy(
    run_id="0" * 32,
    without_progress=3,
    back_off=BackOff(first_seconds=1.0, most_seconds=300.0),
)
RUNNING = RunState(
    policy=POLICY, grace_seconds=120.0, attempt=4, phase=RunPhase.RUNNING
)


def test_one_incident_an_attempt() -> None:
    """It is written down once, says that a reboot is needed, and ends nothing."""
    run, effects = step(RUNNING, DriverStuck(REBOOT), now=1.0)
    (record,) = effects
    assert isinstance(record, RecordIncident)
    assert (record.attempt, record.happened) == (4, IncidentKind.DRIVER_STUCK)
    assert record.diagnosis.cause is Cause.UNKILLABLE
    assert "Reboot" in record.diagnosis.because[0].text
    assert record.remedy.kind is RemedyKind.GO_ON
    assert run.state is JobState.RUNNING
    assert step(run, DriverStuck(REBOOT), now=2.0) == (run, ())


def test_between_attempts_it_waits() -> None:
    """Without an attempt there is nothing to write it down for."""
    waiting = RunState(policy=POLICY, grace_seconds=120.0, phase=RunPhase.WAITING)
    assert step(waiting, DriverStuck(REBOOT), now=1.0) == (waiting, ())
