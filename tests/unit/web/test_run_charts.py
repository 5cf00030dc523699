"""The curves of a run: which value lies over which step."""

from typing import Any

from supervisor.web.markup import render
from supervisor.web.run_charts import column_points, memory_charts
from supervisor.web.run_view import RunDossier

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


def dossier(paused: float) -> RunDossier:
    """A run of two attempts, perhaps with a pause between them."""
    series = {"seconds": [1.0, 14.0], "host_bytes": [2**28, 2**29]}
    began = ("2026-01-31T12:00:00+00:00", "2026-01-31T12:02:40+00:00")
    return RunDossier(
        run={"paused_seconds": paused},
        attempts=[{"began_at": at, "series": series} for at in began],
        status={},
        incidents=[],
    )


def test_the_time_between_the_commands_of_a_run_is_told_where_an_axis_holds_it() -> (
    None
):
    """Elapsed is without it: the axis goes further than that."""
    for chart in memory_charts(dossier(41.2)):
        assert chart.x.name == "time (min, 41 s between its commands in it)"
        assert chart.x.head == "time, 41 s between its commands in it"
    for chart in memory_charts(dossier(0.0)):
        assert (chart.x.name, chart.x.head) == ("time (min)", "time")


def test_a_table_of_times_is_not_headed_by_one_unit() -> None:
    """Each row has its own: 14 s in a column of minutes would be read as minutes."""
    shown = render(memory_charts(dossier(0.0))[1].draw())
    assert '<th scope="col">time</th>' in shown
    assert "14 s</th>" in shown
    assert ">time (min)</text>" in shown
