"""What is counted of snapshots, tier by tier and attempt by attempt."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.accounting.snapshot_stats import (
    NO_SNAPSHOTS,
    SnapshotStats,
    Taken,
    fold,
    of_earlier_boot,
    snapshot_waits,
    tier_statuses,
    together,
    totals_from_json,
    totals_to_json,
)
from supervisor.core.jobs.job_status import SnapshotPlan, TierStatus

RECORDS = st.lists(
    st.builds(
        Taken,
        tier=st.sampled_from(["memory", "durable"]),
        ns=st.integers(0, 10**12),
        failed=st.booleans(),
        count=st.integers(1, 9),
        because=st.sampled_from(["", "disk full"]),
    ),
    max_size=20,
)


def test_tiers_are_folded() -> None:
    """Each tier is counted by itself, and its newest whole snapshot is remembered; a
    record may be that of several."""
    records = (
        Taken(tier="memory", ns=10**9, size_bytes=5, seconds=0.1, stall_seconds=0.01),
        Taken(
            tier="memory",
            ns=3 * 10**9,
            size_bytes=6,
            seconds=0.2,
            stall_seconds=0.02,
            count=4,
        ),
        Taken(tier="memory", ns=4 * 10**9, failed=True, because="full"),
        Taken(tier="durable", ns=4 * 10**9, failed=True, because="denied"),
    )
    tiers = fold(NO_SNAPSHOTS, records)
    assert tiers == fold(fold(NO_SNAPSHOTS, records[:2]), records[2:])
    assert tier_statuses(tiers, now=5.0) == {
        "memory": TierStatus(
            snapshots=5,
            failures=1,
            age_seconds=2.0,
            size_bytes=6,
            seconds=0.2,
            stall_seconds=0.02,
            failing="full",
        ),
        "durable": TierStatus(failures=1, failing="denied"),
    }
    assert tier_statuses(NO_SNAPSHOTS, now=5.0) == {}


def test_snapshots_of_all_attempts() -> None:
    """A new attempt begins at 0, the run does not; the newest whole one stays known until
    there is a newer, and why one failed is of the attempt that runs."""
    first = fold(
        NO_SNAPSHOTS,
        [
            Taken(tier="durable", ns=10**9, size_bytes=7),
            Taken(tier="durable", ns=2 * 10**9, failed=True, because="full"),
        ],
    )
    assert together(first, NO_SNAPSHOTS) == SnapshotStats(
        snapshots=first.snapshots, failures=first.failures, newest=first.newest
    )
    second = fold(NO_SNAPSHOTS, [Taken(tier="durable", ns=3 * 10**9, size_bytes=8)])
    assert tier_statuses(together(first, second), now=5.0) == {
        "durable": TierStatus(snapshots=2, failures=1, age_seconds=2.0, size_bytes=8)
    }


@given(RECORDS, st.integers(0, 10**6))
def test_an_earlier_boot_tells_no_age(records: list[Taken], now: int) -> None:
    """Its monotonic clock began elsewhere: what was counted and how large it was stay."""
    tiers = fold(NO_SNAPSHOTS, records)
    before = tier_statuses(tiers, now=now)
    assert tier_statuses(of_earlier_boot(tiers), now=now) == {
        name: replace(status, age_seconds=None) for name, status in before.items()
    }
    plan = SnapshotPlan(memory_seconds=1.0, durable_seconds=60.0, because="x")
    waits = snapshot_waits(of_earlier_boot(tiers), plan, since_ns=0, now=now)
    assert waits == dict.fromkeys(("memory", "durable"), float(now))


@given(RECORDS)
def test_totals_come_back_from_json(records: list[Taken]) -> None:
    """But for why the last one failed, which is over with the attempt."""
    tiers = fold(NO_SNAPSHOTS, records)
    written = json.dumps(totals_to_json(tiers))
    assert totals_from_json(json.loads(written)) == replace(tiers, failing={})


@given(st.lists(RECORDS, max_size=5), RECORDS)
def test_counters_never_go_back(attempts: list[list[Taken]], more: list[Taken]) -> None:
    """However attempts follow each other, together they are as one."""
    whole = parts = NO_SNAPSHOTS
    for records in [*attempts, more]:
        whole = fold(whole, records)
        parts = together(parts, fold(NO_SNAPSHOTS, records))
    assert (parts.snapshots, parts.failures) == (whole.snapshots, whole.failures)
    assert parts.newest == whole.newest


def test_training_waits_for_snapshots_by_the_clock() -> None:
    """Since the newest whole one, or since this attempt planned some; those that come
    by steps, or never, are not waited for."""
    plan = SnapshotPlan(memory_seconds=1.0, durable_seconds=60.0, because="x")
    taken = (
        Taken(tier="memory", ns=3 * 10**9),
        Taken(tier="memory", ns=4 * 10**9, failed=True),
        Taken(tier="durable", ns=10**9),
    )
    tiers = fold(NO_SNAPSHOTS, taken)
    waits = snapshot_waits(tiers, plan, since_ns=2 * 10**9, now=5.0)
    assert waits == {"memory": 2.0, "durable": 3.0}
    none = snapshot_waits(NO_SNAPSHOTS, plan, since_ns=2 * 10**9, now=5.0)
    assert none == {"memory": 3.0, "durable": 3.0}
    steps = replace(plan, memory_seconds=None, durable_seconds=None)
    assert snapshot_waits(tiers, steps, since_ns=0, now=5.0) == {}
