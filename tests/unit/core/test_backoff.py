"""Back-off grows, is bounded, and is the same for the same history."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.backoff import BackOff

BACK_OFF = BackOff(first_seconds=1.0, most_seconds=300.0)


@given(st.integers(0, 10_000), st.text(max_size=10))
def test_waits_are_bounded_and_repeatable(failures: int, key: str) -> None:
    """A wait lies between the first less its jitter and the longest."""
    wait = BACK_OFF.wait_seconds(failures=failures, key=key)
    assert 0.8 <= wait <= 300.0
    assert wait == BACK_OFF.wait_seconds(failures=failures, key=key)


def test_waits_double() -> None:
    """Without jitter each wait is twice the one before, up to the longest."""
    plain = BackOff(first_seconds=1.0, most_seconds=10.0, jitter=0.0)
    waits = [plain.wait_seconds(failures=n, key="") for n in range(1, 7)]
    assert waits == [1, 2, 4, 8, 10, 10]


def test_jobs_do_not_restart_in_step() -> None:
    """Two runs with the same history wait differently."""
    one = BACK_OFF.wait_seconds(failures=5, key="a")
    assert one != BACK_OFF.wait_seconds(failures=5, key="b")
