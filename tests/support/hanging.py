"""A run whose attempts hang, and what happens to it."""

from dataclasses import replace

from supervisor.core.backoff import BackOff
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import Effect
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    Event,
    Exited,
    GateClear,
    HealthSampled,
    ProgressReported,
    Spawned,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.lifecycle.table import step
from supervisor.core.liveness.hang_detection import Deadlines, Liveness, Look
from supervisor.core.remediation.policy import Policy
from tests.support.lives import exit_record

STILL = Look(heartbeat_ns=1, phase="training", progress=(1,), state="S")


def fresh(**fields: object) -> RunState:
    """A run whose steps may take ten seconds."""
    policy = Policy(
        run_id="r",
        without_progress=3,
        back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
    )
    made = RunState(
        policy=policy,
        grace_seconds=60.0,
        liveness=Liveness(deadlines=Deadlines(silent=None, step=10.0)),
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # by name


def happen(
    run: RunState, *events: Event, now: float = 0.0
) -> tuple[RunState, list[Effect]]:
    """``run`` after ``events``, a second apart."""
    effects: list[Effect] = []
    for number, event in enumerate(events):
        run, done = step(run, event, now=now + number)
        effects += done
    return run, effects


def running(run: RunState | None = None, *, restored: int | None = 5) -> RunState:
    """An attempt that trains."""
    news = ProgressReported(restored_step=restored)
    started, _ = happen(
        run or fresh(),
        DeadlineExpired(),
        GateClear(),
        Spawned(7),
        HealthSampled(STILL),
        news,
    )
    assert started.state is JobState.RUNNING
    return started


def ended(
    *, signal: int | None = None, code: int | None = None, **evidence: object
) -> Exited:
    """An attempt that is over, at step 9 with a snapshot of step 8."""
    record = replace(
        exit_record(code=code, signal=signal),
        asked_to_stop=bool(evidence.get("stop_requested")),
    )
    known = Evidence(exit=record, **evidence)  # type: ignore[arg-type]  # by name
    return Exited(evidence=known, last_step=9, snapshot_step=8, rss_bytes=100)


def hung() -> tuple[RunState, list[Effect]]:
    """Looks without progress until it hangs."""
    looks = [HealthSampled(replace(STILL, heartbeat_ns=beat)) for beat in range(14)]
    return happen(running(), *looks, now=5.0)
