"""The curves of a run: which value lies over which step."""

from typing import Any

from supervisor.web.run_charts import column_points

SERIES: dict[str, Any] = {
    "seconds": [1.0, 2.0, 3.0],
    "step": [9, 20, 30],
    "loss": [0.5, 0.4, 0.3],
}


def test_a_loss_lies_over_its_own_step() -> None:
    """Which is not the newest of the page that it was read from; of an older version's
    series, or part of one, that is all there is to know."""
    told = {**SERIES, "loss_step": [7, None, 28]}
    pairs = ((7.0, 0.5), (20.0, 0.4), (28.0, 0.3))
    assert column_points(told, "loss_step", "loss") == pairs
    old = ((9.0, 0.5), (20.0, 0.4), (30.0, 0.3))
    assert column_points(SERIES, "loss_step", "loss") == old
    assert column_points(told, "step", "loss") == old


def test_over_time_attempts_follow_each_other() -> None:
    """Their own clocks begin with each."""
    times = ((11.0, 0.5), (12.0, 0.4), (13.0, 0.3))
    assert column_points(SERIES, "time", "loss", shift=10.0) == times
