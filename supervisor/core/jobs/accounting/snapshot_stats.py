"""What the records of an attempt say about its snapshots, tier by tier."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from supervisor.core.jobs.job_status import SnapshotPlan, TierStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One record. None: it does not say."""

    tier: str
    ns: int | None
    """When, in monotonic nanoseconds of this boot; None: before it."""
    size_bytes: int | None = None
    seconds: float | None = None
    stall_seconds: float | None = None
    failed: bool = False
    count: int = 1
    """It is the newest of so many."""
    because: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStats:
    """Everything so far; ``newest`` holds the last whole snapshot of each tier, ``failing``
    why the last one of a tier was not saved, where that is so."""

    snapshots: Mapping[str, int]
    failures: Mapping[str, int]
    newest: Mapping[str, Taken]
    failing: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SNAPSHOTS = SnapshotStats(snapshots={}, failures={}, newest={})


def fold(tiers: SnapshotStats, records: Iterable[Taken]) -> SnapshotStats:
    """``tiers`` with more records."""
    snapshots, failures = dict(tiers.snapshots), dict(tiers.failures)
    newest, failing = dict(tiers.newest), dict(tiers.failing)
    for taken in records:
        counts = failures if taken.failed else snapshots
        counts[taken.tier] = counts.get(taken.tier, 0) + taken.count
        if taken.failed:
            failing[taken.tier] = taken.because
        else:
            newest[taken.tier] = taken
            failing.pop(taken.tier, None)
    return SnapshotStats(
        snapshots=snapshots, failures=failures, newest=newest, failing=failing
    )


def together(before: SnapshotStats, after: SnapshotStats) -> SnapshotStats:
    """Those of attempts that followed each other."""
    return SnapshotStats(
        snapshots=_added(before.snapshots, after.snapshots),
        failures=_added(before.failures, after.failures),
        newest={**before.newest, **after.newest},
        failing=after.failing,
    )


def totals_to_json(tiers: SnapshotStats) -> dict[str, Any]:
    """``tiers`` for JSON; without why the last one failed, which is of the moment."""
    newest = {name: asdict(one) for name, one in tiers.newest.items()}
    return {
        "snapshots": dict(tiers.snapshots),
        "failures": dict(tiers.failures),
        "newest": newest,
    }


def totals_from_json(value: Mapping[str, Any]) -> SnapshotStats:
    """What ``totals_to_json`` made."""
    newest = {name: Taken(**one) for name, one in value["newest"].items()}
    return SnapshotStats(
        snapshots=value["snapshots"], failures=value["failures"], newest=newest
    )


def of_earlier_boot(tiers: SnapshotStats) -> SnapshotStats:
    """Those of a boot of the machine before this one, whose monotonic clock was another."""
    newest = {name: replace(one, ns=None) for name, one in tiers.newest.items()}
    return replace(tiers, newest=newest)


def _added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    names = left.keys() | right.keys()
    return {name: left.get(name, 0) + right.get(name, 0) for name in names}


def tier_statuses(tiers: SnapshotStats, *, now: float) -> dict[str, TierStatus]:
    """By tier, as of ``now`` (monotonic seconds)."""
    names = tiers.snapshots.keys() | tiers.failures.keys()
    return {name: _status(tiers, name, now) for name in names}


def _status(tiers: SnapshotStats, name: str, now: float) -> TierStatus:
    counted, failed = tiers.snapshots.get(name, 0), tiers.failures.get(name, 0)
    newest, failing = tiers.newest.get(name), tiers.failing.get(name)
    if newest is None:
        return TierStatus(snapshots=counted, failures=failed, failing=failing)
    return TierStatus(
        snapshots=counted,
        failures=failed,
        failing=failing,
        age_seconds=None if newest.ns is None else max(now - newest.ns / 1e9, 0.0),
        size_bytes=newest.size_bytes,
        seconds=newest.seconds,
        stall_seconds=newest.stall_seconds,
    )


def snapshot_waits(
    tiers: SnapshotStats, plan: SnapshotPlan, *, since_ns: int, now: float
) -> dict[str, float]:
    """By tier whose snapshots come by the clock: seconds that training has had no new one.
    ``since_ns``: when the attempt began to plan them, for one that has had none."""
    planned = {"memory": plan.memory_seconds, "durable": plan.durable_seconds}
    return {
        name: max(now - _latest(tiers, name, since_ns) / 1e9, 0.0)
        for name, seconds in planned.items()
        if seconds is not None
    }


def _latest(tiers: SnapshotStats, name: str, since_ns: int) -> int:
    newest = tiers.newest.get(name)
    ns = None if newest is None else newest.ns
    return since_ns if ns is None else max(ns, since_ns)
