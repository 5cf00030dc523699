"""Which seeds look like the clock."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.process.script.clock_seeds import UNITS_NS, looks_like_clock

NOWS = st.integers(1_500_000_000 * 10**9, 4_000_000_000 * 10**9)
WRITTEN = (0, 1, 7, 42, 123, 1234, 1337, 2024, 2026, 31415, 65537, 271828, 1000003)
DATES = (20240101, 20261126, 123456789, 87654321, 0xC0FFEE)


@given(NOWS, st.sampled_from(UNITS_NS), st.integers(0, 23 * 3600))
def test_the_time_of_the_last_day_is_the_clock(now: int, unit: int, ago: int) -> None:
    """In each unit, as a number or as text."""
    seed = (now - ago * 10**9) // unit
    assert looks_like_clock(seed, now_ns=now)
    assert looks_like_clock(str(seed), now_ns=now)
    assert looks_like_clock((now - ago * 10**9) / 1e9, now_ns=now)


@given(NOWS, st.sampled_from((2**32, 2**31, 2**32 - 1)), st.integers(0, 10**5))
def test_the_time_cut_to_a_seed_of_numpy_is_the_clock(
    now: int, size: int, late: int
) -> None:
    """Read a moment ago, unless what is left of it is small."""
    for unit in (10**6, 10**3, 1):
        seed = (now - late) // unit % size
        assert looks_like_clock(seed, now_ns=now) or seed < 2**28


@given(NOWS, st.sampled_from(WRITTEN + DATES))
def test_what_people_write_is_not(now: int, seed: int) -> None:
    """At no time at all."""
    assert not looks_like_clock(seed, now_ns=now)
    assert not looks_like_clock(float(seed), now_ns=now)


@given(NOWS, st.integers(0, 2**28))
def test_a_small_seed_is_not(now: int, seed: int) -> None:
    """It is left to the source of the script."""
    assert not looks_like_clock(seed, now_ns=now)


def test_few_of_the_large_ones_are() -> None:
    """One in a hundred would be a false alarm for too many."""
    now = 1_795_709_843_123_456_789
    seeds = range(2**28, 2**32, 40_000_003)
    assert sum(looks_like_clock(one, now_ns=now) for one in seeds) <= 1


def test_a_date_with_its_time_is() -> None:
    """In whichever time zone; another day's is not."""
    now = dt.datetime(2026, 11, 26, 16, 20, tzinfo=dt.UTC)
    ns = int(now.timestamp()) * 10**9
    assert looks_like_clock(20261126112033, now_ns=ns)
    assert looks_like_clock(202611270100, now_ns=ns)
    assert not looks_like_clock(20240101000000, now_ns=ns)


@pytest.mark.parametrize("seed", [None, "run-7", b"x", [1, 2], (), object(), 1e400])
def test_what_is_no_number_is_not(seed: object) -> None:
    """Names, lists, nothing."""
    assert not looks_like_clock(seed, now_ns=1_795_709_843 * 10**9)
