"""How long bytes wait for their turn."""

from supervisor.core.jobs.remote.pacing import SendingPace


def test_bytes_wait_for_those_before_them() -> None:
    """Two parts of a second each: the second waits a second, the third two."""
    pace = SendingPace(100)
    assert [pace.begin(100, now=5.0) for _ in range(3)] == [0.0, 1.0, 2.0]


def test_what_was_not_used_is_not_saved_up() -> None:
    """After a long pause there is no burst."""
    pace = SendingPace(100)
    pace.begin(100, now=0.0)
    assert pace.begin(100, now=50.0) == 0.0
    assert pace.begin(100, now=50.0) == 1.0


def test_without_a_limit_nothing_waits() -> None:
    """None is as fast as it goes."""
    pace = SendingPace()
    assert pace.begin(10**12, now=0.0) == pace.begin(1, now=0.0) == 0.0
