"""The life of a run, driven by hand: what several tests of the core share."""

from supervisor.core.backoff import BackOff
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.lifecycle.effects import Effect, Say
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    Event,
    Exited,
    GateClear,
    Spawned,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.lifecycle.table import step
from supervisor.core.remediation.policy import Policy
from supervisor.wire.records.end_records import CrashReport, ExitRecord

POLICY = Policy(
    run_id="r",
    without_progress=3,
    back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
)


def fresh() -> RunState:
    """A run that was just begun."""
    return RunState(policy=POLICY, grace_seconds=60.0)


def exit_record(*, code: int | None = None, signal: int | None = None) -> ExitRecord:
    """How a process ended."""
    return ExitRecord(
        pid=1,
        exit_code=code,
        signal=signal,
        core_dumped=False,
        max_rss_bytes=1,
        user_seconds=0.0,
        system_seconds=0.0,
        started_ns=0,
        ended_ns=1,
        asked_to_stop=False,
        swept=0,
        unkillable=(),
    )


def oom_report(steps_done: int | None) -> CrashReport:
    """TensorFlow's exception for exhausted memory."""
    return CrashReport(
        exception="tensorflow.python.framework.errors_impl.ResourceExhaustedError",
        message="OOM when allocating tensor with shape[512,64,64,32]",
        traceback="Traceback (most recent call last):",
        steps_done=steps_done,
        in_fit=True,
    )


def killed(last: int | None = 10, snapshot: int | None = 8) -> Exited:
    """Killed from outside."""
    evidence = Evidence(exit=exit_record(signal=9), steps_done=last)
    return Exited(evidence=evidence, last_step=last, snapshot_step=snapshot)


def out_of_memory(last: int | None = 0, snapshot: int | None = 0) -> Exited:
    """Out of device memory, under our limit."""
    evidence = Evidence(
        exit=exit_record(code=1), crash=oom_report(last), steps_done=last, limited=True
    )
    return Exited(evidence=evidence, last_step=last, snapshot_step=snapshot)


def finished() -> Exited:
    """A clean end."""
    evidence = Evidence(exit=exit_record(code=0), finished=True)
    return Exited(evidence=evidence, last_step=20, snapshot_step=20)


def drained() -> Exited:
    """An end on request, with the state saved."""
    evidence = Evidence(exit=exit_record(code=75), drained=True)
    return Exited(evidence=evidence, last_step=12, snapshot_step=12)


def happen(
    run: RunState, *events: Event, now: float = 100.0
) -> tuple[RunState, list[Effect]]:
    """``run`` after ``events``, and all effects on the way."""
    effects: list[Effect] = []
    for event in events:
        run, done = step(run, event, now=now)
        effects += done
    return run, effects


def running(*events: Event) -> tuple[RunState, list[Effect]]:
    """A run whose next attempt was started, and then ``events``."""
    return happen(fresh(), DeadlineExpired(), GateClear(), Spawned(7), *events)


def kinds(effects: list[Effect]) -> list[type]:
    """Their types, talk left out."""
    return [type(effect) for effect in effects if not isinstance(effect, Say)]
