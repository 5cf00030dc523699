"""Counters of a run: they outlive attempts and never go back."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.job_status import JobState, JobStatus, TierStatus
from supervisor.core.jobs.snapshot_stats import NO_SNAPSHOTS, Taken, fold, tier_statuses
from supervisor.core.metrics.run_counters import RunCounters, metered

RUNNING = JobStatus(job="a", state=JobState.RUNNING, attempt=1)


def seen(*moments: tuple[float, JobStatus]) -> list[JobStatus]:
    """What is shown of a run that is seen at these moments."""
    counters, shown = RunCounters(), list[JobStatus]()
    for now, status in moments:
        counters, told = metered(counters, status, now=now)
        shown.append(told)
    return shown


def test_time_between_attempts() -> None:
    """Back-off is waiting, starting a process is down; training is neither."""
    waiting = replace(RUNNING, state=JobState.WAITING)
    launching = replace(RUNNING, state=JobState.LAUNCHING, attempt=2)
    again = replace(RUNNING, attempt=2, phase_seconds={"training": 5.0})
    *_, last = seen(
        (0.0, RUNNING), (10.0, waiting), (14.0, launching), (15.0, again), (99.0, again)
    )
    assert last.phase_seconds == {"training": 5.0, "waiting": 4.0, "down": 1.0}


def test_snapshots_of_all_attempts() -> None:
    """A new attempt begins at 0, the counter of the run does not; age goes on."""
    disk = TierStatus(snapshots=3, failures=1, age_seconds=2.0, size_bytes=7)
    first = replace(RUNNING, tiers={"durable": disk})
    second = replace(RUNNING, attempt=2, tiers={"memory": TierStatus(snapshots=1)})
    third = replace(
        RUNNING, attempt=3, tiers={"durable": replace(disk, age_seconds=0.5)}
    )
    shown = seen((0.0, first), (4.0, second), (5.0, second), (6.0, third))
    assert shown[1].tiers["durable"] == replace(disk, age_seconds=6.0)
    assert shown[2].tiers["durable"] == replace(disk, age_seconds=7.0)
    assert shown[2].tiers["memory"].snapshots == 1
    assert shown[3].tiers["durable"] == replace(
        disk, snapshots=6, failures=2, age_seconds=0.5
    )


COUNTS = st.dictionaries(st.sampled_from(["memory", "durable"]), st.integers(0, 9))


@given(st.lists(st.tuples(st.booleans(), COUNTS), max_size=30))
def test_counters_never_go_back(story: list[tuple[bool, dict[str, int]]]) -> None:
    """However attempts follow each other, the totals only grow."""
    counters, attempt, counts = RunCounters(), 1, dict[str, int]()
    before: dict[str, int] = {}
    for now, (another, more) in enumerate(story):
        if another:
            attempt, counts = attempt + 1, {}
        counts = {k: counts.get(k, 0) + more.get(k, 0) for k in {*counts, *more}}
        tiers = {name: TierStatus(snapshots=count) for name, count in counts.items()}
        status = replace(RUNNING, attempt=attempt, tiers=tiers)
        counters, shown = metered(counters, status, now=float(now))
        after = {name: tier.snapshots for name, tier in shown.tiers.items()}
        assert all(after.get(name, 0) >= count for name, count in before.items())
        before = after


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
        Taken(tier="memory", ns=4 * 10**9, failed=True),
        Taken(tier="durable", ns=4 * 10**9, failed=True),
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
        ),
        "durable": TierStatus(failures=1),
    }
    assert tier_statuses(NO_SNAPSHOTS, now=5.0) == {}
