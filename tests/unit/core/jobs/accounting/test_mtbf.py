"""How often a run fails, as far as its past tells."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.jobs.accounting.mtbf import mean_seconds_between_failures
from supervisor.core.remediation.history import AttemptHistory, History

seconds = st.floats(0, 1e9)
counts = st.integers(0, 10_000)


def test_nothing_seen_is_a_failure_a_day() -> None:
    """The prior speaks where there is no past."""
    assert mean_seconds_between_failures(seconds=0, failures=0) == 86400


@given(seconds=seconds, failures=counts)
def test_more_failures_in_the_same_time_are_a_shorter_mean(
    seconds: float, failures: int
) -> None:
    """And more time without one is a longer; it is never zero."""
    mean = mean_seconds_between_failures(seconds=seconds, failures=failures)
    more = mean_seconds_between_failures(seconds=seconds, failures=failures + 1)
    longer = mean_seconds_between_failures(seconds=seconds + 1, failures=failures)
    assert 0 < more < mean < longer


@given(mean=st.floats(1, 1e6), failures=st.integers(100, 10_000))
def test_a_long_past_outweighs_the_prior(mean: float, failures: int) -> None:
    """What was seen often decides; the prior moves it by no more than its weight."""
    found = mean_seconds_between_failures(seconds=mean * failures, failures=failures)
    assert abs(found - mean) <= (8640 + 0.1 * mean) / failures


def test_ends_that_were_wanted_are_no_failures() -> None:
    """A drain, a clean end and an attempt that still runs do not count."""
    causes = (Cause.DEVICE_OOM, Cause.PREEMPTED, Cause.UNKNOWN, Cause.NONE, None)
    attempts = [AttemptHistory(number=n, cause=c) for n, c in enumerate(causes, 1)]
    assert History(attempts=tuple(attempts)).failures == 2
