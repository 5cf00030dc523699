"""The time between attempts."""

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.job_status import JobState
from supervisor.core.metrics.run_counters import (
    KEPT_SECONDS,
    UNKEPT_SECONDS,
    KeptSeconds,
    RunCounters,
)


def seen(
    *moments: tuple[float, JobState], counters: RunCounters | None = None
) -> RunCounters:
    """What is counted of a run that is seen at these moments."""
    counters = counters or RunCounters()
    for now, state in moments:
        counters = counters.seen_in(state, now=now)
    return counters


def test_time_between_attempts() -> None:
    """Back-off is waiting, starting a process is down; training is neither."""
    last = seen(
        (0.0, JobState.RUNNING),
        (10.0, JobState.WAITING),
        (14.0, JobState.LAUNCHING),
        (15.0, JobState.RUNNING),
        (99.0, JobState.RUNNING),
    )
    assert last.seconds == {"waiting": 4.0, "down": 1.0}


def test_news_is_where_a_time_begins_or_ends_or_was_taken_up() -> None:
    """The rest is not worth a write to the disk."""
    new = RunCounters()
    running, waiting = seen((0.0, JobState.RUNNING)), seen((0.0, JobState.WAITING))
    assert not running.is_news(new)
    assert waiting.is_news(new)
    assert waiting.is_news(running)
    assert running.is_news(waiting)
    assert not waiting.is_news(waiting)
    assert not seen((0.0, JobState.FINISHED)).is_news(running)
    taken_up = RunCounters(seconds={"waiting": 4.0})
    assert seen((0.0, JobState.RUNNING), counters=taken_up).is_news(taken_up)


@given(
    before=st.floats(0, 1e6),
    since=st.floats(0, KEPT_SECONDS),
    gone=st.floats(0, 1e6),
    goes_on=st.sampled_from(["waiting", "down", None]),
)
def test_a_run_that_is_taken_up_goes_on_from_what_was_told(
    before: float, since: float, gone: float, goes_on: str | None
) -> None:
    """Its counters do not fall, however its supervisor ended, and what nobody looked
    after is not counted."""
    kept = KeptSeconds(seconds={"waiting": before}, goes_on=goes_on, at=1000.0)
    told = dict(kept.seconds)
    if goes_on is not None:
        told[goes_on] = told.get(goes_on, 0.0) + since
    after = kept.taken_up(wall=1000.0 + since + gone)
    assert all(after[name] >= told[name] - 1e-6 for name in told)
    assert sum(after.values()) <= before + UNKEPT_SECONDS
    assert KeptSeconds(**asdict(kept)) == kept
    assert kept.taken_up(wall=0.0) == kept.taken_up(wall=1000.0)
