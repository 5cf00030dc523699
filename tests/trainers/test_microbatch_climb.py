"""The climb to the largest slice that fits: pure arithmetic, no training."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.calibrate import Measured, Trial, first_trial, largest, next_trial

LIMIT = 300_000_000


def climbed(
    peak: float, fixed: int, *, batch: int, ceiling: int | None = None
) -> list[int]:
    """The sizes tried where a sample needs ``peak`` bytes."""
    size = first_trial(batch=batch, ceiling=ceiling)
    measured: list[Measured] = []
    tried, aimed = [], False
    while True:
        tried.append(size)
        measured.append(Measured(size=size, peak_bytes=int(fixed + peak * size)))
        following = next_trial(
            measured,
            aimed=aimed,
            batch=batch,
            ceiling=ceiling,
            limit_bytes=LIMIT,
        )
        if following is None:
            return tried
        size, aimed = following.size, following.aimed


def test_the_climb_ends_just_below_the_limit() -> None:
    """256 samples of 1.4 MB over 25 MB fixed: 196 fit in 300 MB, 184 are planned."""
    assert climbed(1.4e6, 25_000_000, batch=256) == [8, 16, 32, 64, 92, 184]


def test_the_climb_stops_at_the_whole_batch() -> None:
    """Where everything fits after all, the batch is one slice."""
    assert climbed(1e5, 25_000_000, batch=256)[-1] == 256


def test_the_climb_stays_below_what_failed() -> None:
    """A slice that failed is not approached by less than a tenth."""
    assert climbed(1e5, 25_000_000, batch=256, ceiling=200)[-1] == 180
    assert climbed(1e5, 25_000_000, batch=256, ceiling=2) == [1]


@given(
    peak=st.floats(1e4, 1e8),
    fixed=st.integers(0, LIMIT),
    batch=st.integers(2, 5000),
    ceiling=st.none() | st.integers(2, 5000),
)
def test_the_climb_never_overshoots_a_line(
    peak: float, fixed: int, batch: int, ceiling: int | None
) -> None:
    """On a straight line every size tried after the second fits, and sizes rise."""
    tried = climbed(peak, fixed, batch=batch, ceiling=ceiling)
    assert all(fixed + peak * size <= LIMIT for size in tried[2:])
    assert tried == sorted(set(tried))
    assert len(tried) <= 20


@given(peak=st.floats(1e5, 5e6), fixed=st.integers(0, LIMIT // 2))
def test_the_climb_comes_within_a_tenth(peak: float, fixed: int) -> None:
    """On a straight line the last size is at least 0.9 of the largest that fits."""
    fits = int((LIMIT - fixed) / peak)
    if 20 <= fits < 4000:
        assert climbed(peak, fixed, batch=4000)[-1] >= 0.9 * fits


def test_peaks_near_the_limit_do_not_bend_the_line() -> None:
    """A chunk handed out whole makes a peak of the limit: no reason to stop there."""
    clear = [Measured(size=s, peak_bytes=20_000_000 + s * 1_400_000) for s in (32, 64)]
    whole = Measured(size=128, peak_bytes=299_000_000)
    assert largest([*clear, whole], limit_bytes=LIMIT) == 187


@pytest.mark.parametrize("peaks", [(50, 50), (60, 50)])
def test_peaks_that_do_not_rise_have_no_line(peaks: tuple[int, int]) -> None:
    """Without a slope nothing is extrapolated; the slice is doubled, no more."""
    points = [
        Measured(size=8, peak_bytes=peaks[0]),
        Measured(size=16, peak_bytes=peaks[1]),
    ]
    assert largest(points, limit_bytes=LIMIT) is None
    following = next_trial(
        points, aimed=False, batch=512, ceiling=None, limit_bytes=LIMIT
    )
    assert following == Trial(size=32, aimed=False)


def test_an_aim_once_reached_is_left_only_for_much_more() -> None:
    """At an aim, a line that promises 10 % more is scatter; one of 50 % more is not."""
    points = [
        Measured(size=50, peak_bytes=150_000_000),
        Measured(size=100, peak_bytes=250_000_000),
    ]

    def after(*, aimed: bool, limit: int) -> Trial | None:
        return next_trial(
            points, aimed=aimed, limit_bytes=limit, batch=512, ceiling=None
        )

    for limit, size in ((270_000_000, None), (350_000_000, 141)):
        following = after(aimed=True, limit=limit)
        assert (following and following.size) == size
    assert after(aimed=False, limit=280_000_000)
