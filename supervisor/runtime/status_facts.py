"""What to show of a run right now."""

from collections import Counter
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.jobs.snapshot_stats import NO_SNAPSHOTS
from supervisor.core.lifecycle.run_state import RunState
from supervisor.host.gpu.gpu_access import GpuAccess
from supervisor.runtime.attempt_monitor import AttemptMonitor
from supervisor.runtime.status_builder import RunFacts, job_status
from supervisor.wire.page import Phase


def status_of(
    run: RunState,
    following: AttemptMonitor,
    devices: GpuAccess,
    *,
    incidents: Counter[tuple[Cause, RemedyKind]],
) -> JobStatus:
    """What the run, its attempt and the pages of those before tell together."""
    handle = following.handle
    facts = RunFacts(
        job=following.row.job,
        state=run.state,
        attempt=run.attempt,
        message=run.message,
        incidents=incidents,
        batch=run.history.batch,
        overrides=run.overrides,
        history=run.history,
        unpromised=run.history.unpromised,
        snapshot_plan=None if handle is None else handle.telemetry.view.snapshot_plan,
        tiers=NO_SNAPSHOTS if handle is None else handle.telemetry.view.tiers,
        forecast_seconds=following.memory.seconds_left(),
    )
    page = None
    if handle is not None:
        page = following.beside_driver(handle.page, run, devices)
    earlier = following.earlier
    if page is None:
        page, earlier = earlier, None
        if page is not None and handle is not None:
            page = replace(page, phase=Phase.STARTING)  # it has no page of its own yet
    return job_status(
        facts,
        page,
        pid=None if handle is None else handle.attempt.pid,
        now=following.clock.now(),
        earlier=earlier,
    )
