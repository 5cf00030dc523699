"""Counters that outlive an attempt: what an exporter has to remember of a run.

An attempt's own counts begin at 0 with each attempt; a counter of the run must not go
back. What nobody else counts is the time between attempts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.jobs.job_status import JobState, JobStatus, TierStatus

BETWEEN = {JobState.WAITING: "waiting", JobState.LAUNCHING: "down"}
"""States in which no training process is there, by the name of their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounters:
    """One run, seen again and again."""

    seen: float | None = None
    """When it was seen last (monotonic seconds)."""
    state: JobState | None = None
    attempt: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Between attempts, by the names of ``BETWEEN``."""
    earlier: Mapping[str, TierStatus] = field(default_factory=dict[str, TierStatus])
    """Snapshots of the attempts before this one, together."""
    tiers: Mapping[str, TierStatus] = field(default_factory=dict[str, TierStatus])
    """All of them, as they were shown last."""


def metered(
    counters: RunCounters, status: JobStatus, *, now: float
) -> tuple[RunCounters, JobStatus]:
    """The meter after seeing ``status``, and the status with the totals of the run."""
    passed = 0.0 if counters.seen is None else max(now - counters.seen, 0.0)
    seconds = dict(counters.seconds)
    name = None if counters.state is None else BETWEEN.get(counters.state)
    if name is not None:
        seconds[name] = seconds.get(name, 0.0) + passed
    newer = status.attempt != counters.attempt
    earlier = _older(counters.tiers if newer else counters.earlier, passed)
    tiers = dict(status.tiers)
    for name, tier in earlier.items():
        tiers[name] = _together(tier, tiers.get(name, _NONE))
    after = RunCounters(
        seen=now,
        state=status.state,
        attempt=status.attempt,
        seconds=seconds,
        earlier=earlier,
        tiers=tiers,
    )
    phases = {**status.phase_seconds, **seconds}
    return after, replace(status, phase_seconds=phases, tiers=tiers)


def _older(tiers: Mapping[str, TierStatus], seconds: float) -> dict[str, TierStatus]:
    """The same snapshots, so much later."""
    return {
        name: tier
        if tier.age_seconds is None
        else replace(tier, age_seconds=tier.age_seconds + seconds)
        for name, tier in tiers.items()
    }


_NONE = TierStatus()


def _together(earlier: TierStatus, now: TierStatus) -> TierStatus:
    newest = earlier if now.age_seconds is None else now
    return replace(
        newest,
        snapshots=earlier.snapshots + now.snapshots,
        failures=earlier.failures + now.failures,
    )
