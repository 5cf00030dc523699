"""A series is bounded, keeps its order, and never loses a peak."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.accounting.progress_series import (
    MOST,
    ProgressPoint,
    ProgressSeries,
    series_from_json,
)


def grown(points: list[ProgressPoint]) -> ProgressSeries:
    """A series of these, one after the other."""
    series = ProgressSeries()
    for point in points:
        series = series.with_point(point)
    return series


def test_a_long_attempt_in_bounded_room() -> None:
    """Twenty thousand looks make some hundred points, evenly spread, the newest last;
    the highest of memory and the least that was free are among them."""
    points = [
        ProgressPoint(
            seconds=0.5 * number,
            step=number,
            device_bytes=999 if number == 6_007 else 10,
            largest_free_bytes=1 if number == 15_555 else 50,
        )
        for number in range(20_000)
    ]
    series = grown(points)
    assert MOST // 2 <= len(series.points) <= MOST
    assert series.points[-1].step == 19_999
    assert series.seconds == 9_999.5
    assert series.device_peak_bytes == 999
    assert min(p.largest_free_bytes or 0 for p in series.points) == 1
    gaps = [b.seconds - a.seconds for a, b in pairwise(series.points[:-1])]
    assert max(gaps) <= 2 * series.every


@given(st.lists(st.floats(0, 1e6), max_size=600), st.integers(0, 10**12))
def test_times_only_grow(times: list[float], most: int) -> None:
    """Whatever the rhythm of looks: never more than ``MOST`` points, in order."""
    points = [ProgressPoint(seconds=s, host_bytes=most) for s in sorted(times)]
    series = grown(points)
    assert len(series.points) <= MOST
    assert all(a.seconds <= b.seconds for a, b in pairwise(series.points))
    assert series.host_peak_bytes == (most if times else None)
    assert series_from_json(json.loads(json.dumps(series.to_json()))) == series


def test_what_nobody_knows_stays_unknown() -> None:
    """It is no zero, and needs no column."""
    empty = ProgressSeries()
    assert (empty.seconds, empty.device_peak_bytes, empty.host_peak_bytes) == (
        0.0,
        None,
        None,
    )
    series = grown([ProgressPoint(seconds=1.0), ProgressPoint(seconds=1.1, step=3)])
    assert series.points == (ProgressPoint(seconds=1.1, step=3),)
    assert series.to_json() == {"every": 0.25, "seconds": [1.1], "step": [3]}
    later = series.with_point(ProgressPoint(seconds=1.15))
    assert later.points == (ProgressPoint(seconds=1.15, step=3),)


def test_a_peak_within_a_step() -> None:
    """It counts, though nothing was in use when somebody looked."""
    assert grown([ProgressPoint(seconds=1.0, peak_bytes=5)]).device_peak_bytes == 5


def test_the_limit_is_the_newest_that_was_told() -> None:
    """A peak is measured against it; one that nobody told is not known."""
    series = ProgressSeries().with_point(ProgressPoint(seconds=1.0, peak_bytes=5))
    assert series.device_limit_bytes is None
    for at, limit in ((2.0, 10), (3.0, None), (4.0, 20), (5.0, None)):
        series = series.with_point(ProgressPoint(seconds=at, limit_bytes=limit))
    assert series.device_limit_bytes == 20
