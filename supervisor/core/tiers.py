"""What the records of an attempt say about its snapshots, tier by tier."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from supervisor.core.status import TierStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One record. None: it does not say."""

    tier: str
    ns: int
    """When, in monotonic nanoseconds."""
    size_bytes: int | None = None
    seconds: float | None = None
    stall_seconds: float | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Everything so far; ``newest`` holds the last whole snapshot of each tier."""

    snapshots: Mapping[str, int]
    failures: Mapping[str, int]
    newest: Mapping[str, Taken]


NO_SNAPSHOTS = Tiers(snapshots={}, failures={}, newest={})


def fold(tiers: Tiers, taken: Taken) -> Tiers:
    """``tiers`` with one more record."""
    name = taken.tier
    if taken.failed:
        return replace(tiers, failures=_more(tiers.failures, name))
    return replace(
        tiers,
        snapshots=_more(tiers.snapshots, name),
        newest={**tiers.newest, name: taken},
    )


def _more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1}


def tier_statuses(tiers: Tiers, *, now: float) -> dict[str, TierStatus]:
    """By tier, as of ``now`` (monotonic seconds)."""
    names = tiers.snapshots.keys() | tiers.failures.keys()
    return {name: _status(tiers, name, now) for name in names}


def _status(tiers: Tiers, name: str, now: float) -> TierStatus:
    counted = TierStatus(
        snapshots=tiers.snapshots.get(name, 0), failures=tiers.failures.get(name, 0)
    )
    newest = tiers.newest.get(name)
    if newest is None:
        return counted
    return replace(
        counted,
        age_seconds=max(now - newest.ns / 1e9, 0.0),
        size_bytes=newest.size_bytes,
        seconds=newest.seconds,
        stall_seconds=newest.stall_seconds,
    )
