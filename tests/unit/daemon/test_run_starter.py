"""What a daemon finds that takes over from an earlier one."""

import pytest

from supervisor.daemon.run_starter import not_before


@pytest.mark.parametrize(
    ("since", "began_at", "expected"),
    [
        (900.0, 5900.0, 900.0),  # they agree
        (
            100.0,
            5900.0,
            900.0,
        ),  # it stood by, and what the driver said then is another's
        (100.0, None, 100.0),
        (900.0, 5000.0, 900.0),  # the clock on the wall was put forward
        (900.0, 7000.0, 1000.0),  # ... or back: not in the future
    ],
)
def test_since_when_faults_are_those_of_an_attempt(
    since: float, began_at: float | None, expected: float
) -> None:
    """From its start on, which is not that of a process that stood by."""
    assert not_before(since, began_at, wall=6000.0, now=1000.0) == expected
