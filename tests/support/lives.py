"""The life of a run, driven by hand: what several tests of the core share."""

from supervisor.core.backoff import BackOff
from supervisor.core.effects import Effect
from supervisor.core.events import Event, Exited, GateClear, Spawned, TimeIsUp
from supervisor.core.evidence import Evidence
from supervisor.core.lifecycle import Run, step
from supervisor.core.policy import Policy

POLICY = Policy(
    run_id="r",
    without_progress=3,
    back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
    allow_inexact=True,
)


def drained() -> Exited:
    """An end on request, with the state saved at step 12."""
    evidence = Evidence(exit=None, drained=True)
    return Exited(evidence=evidence, last_step=12, snapshot_step=12)


def happen(run: Run, *events: Event, now: float = 100.0) -> tuple[Run, list[Effect]]:
    """``run`` after ``events``, and all effects on the way."""
    effects: list[Effect] = []
    for event in events:
        run, done = step(run, event, now=now)
        effects += done
    return run, effects


def running(*events: Event) -> tuple[Run, list[Effect]]:
    """A run whose first attempt was started, and then ``events``."""
    fresh = Run(policy=POLICY, grace_seconds=60.0)
    return happen(fresh, TimeIsUp(), GateClear(), Spawned(7), *events)
