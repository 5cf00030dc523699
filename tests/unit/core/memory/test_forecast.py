"""Forecasts of memory: leaks are foreseen in time, and what settles is left alone."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.memory.forecast import (
    CLOSE,
    ENOUGH,
    FEWEST,
    KEPT,
    SURE,
    Forecast,
    MemoryLevel,
    MemoryReading,
    MemoryTrends,
    Point,
    Resource,
    Series,
)
from supervisor.core.memory.trend import trend_of

LIMIT = 1000
WITHIN = 20.0
Curve = Callable[[float], float]


def watched(curve: Curve, *, seconds: float, every: float = 0.5) -> float | None:
    """When a planned restart is due, if ever, of memory in use along ``curve``."""
    series = Series()
    for number in range(int(seconds / every)):
        at = number * every
        level = MemoryLevel(used=curve(at), capacity=LIMIT)
        series = series.and_then(Point(at, number, level))
        forecast = series.forecast(Resource.DEVICE)
        if forecast is not None and forecast.imminent(WITHIN):
            return at
    return None


def noise(seed: int, size: float) -> Curve:
    """Noise that is the same for the same time."""
    return lambda at: random.Random(f"{seed} {at}").gauss(0, size)  # noqa: S311  # no secret


SEEDS = st.integers(0, 2**32)


@settings(max_examples=20)
@given(
    start=st.floats(10, 500),
    seconds=st.floats(20, 2000),
    jitter=st.floats(0, 10),
    seed=SEEDS,
)
def test_a_leak_is_foreseen(
    start: float, seconds: float, jitter: float, seed: int
) -> None:
    """Linear growth is answered before memory runs out, and not before it is close."""
    every = max(0.5, seconds / 400)
    rate = (LIMIT - start) / seconds
    wobble = noise(seed, jitter)
    due = watched(
        lambda at: start + rate * at + wobble(at), seconds=seconds, every=every
    )
    assert due is not None
    used = start + rate * due
    assert used < LIMIT
    assert used > (CLOSE - 0.03) * LIMIT


@settings(max_examples=10)
@given(seed=SEEDS, epochs=st.integers(12, 40), first=st.floats(100, 300))
def test_a_leak_of_each_epoch_is_foreseen(seed: int, epochs: int, first: float) -> None:
    """Growth in steps, one an epoch, is growth."""
    wobble = noise(seed, 2)
    rise = (LIMIT - first) / epochs
    seconds = epochs * 10.0
    due = watched(
        lambda at: first + rise * math.floor(at / 10) + wobble(at), seconds=seconds
    )
    assert due is not None


def settling(seed: int) -> tuple[Curve, float]:
    """Memory that grows and settles, as caches, pools and longer sequences do."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    base, last = draw.uniform(20, 300), draw.uniform(350, 880)
    over, wobble = draw.uniform(5, 120), noise(seed, draw.uniform(0, 12))
    kind = draw.choice(
        ("cache", "pool", "steps", "sequences", "sawtooth", "validation")
    )
    levels = sorted(draw.uniform(base, last) for _ in range(5))

    def curve(at: float) -> float:
        done = min(at / over, 1.0)
        if kind == "cache":
            value = base + (last - base) * done
        elif kind == "pool":
            value = last - (last - base) * math.exp(-3 * at / over)
        elif kind == "steps":
            value = levels[min(int(5 * done), 4)]
        elif kind == "sequences":
            value = base + (last - base) * math.log1p(9 * done) / math.log(10)
        elif kind == "sawtooth":
            value = base + (last - base) * (at % over) / over
        else:
            value = last if at % over > 0.8 * over else base
        return min(value + wobble(at), 0.95 * LIMIT)

    return curve, 4 * over


@pytest.mark.parametrize("seed", range(20))
def test_what_settles_is_left_alone(seed: int) -> None:
    """Twenty runs that grow and settle: no restart is planned for any."""
    curve, seconds = settling(seed)
    assert watched(curve, seconds=seconds) is None


@settings(max_examples=8)  # beside the twenty above
@given(seed=st.integers(20, 100_000))
def test_whatever_settles_is_left_alone(seed: int) -> None:
    """Nor for any other of their kind."""
    curve, seconds = settling(seed)
    assert watched(curve, seconds=seconds) is None


def test_full_from_the_start_is_left_alone() -> None:
    """A restart would give nothing back."""
    assert watched(lambda at: 930 + at / 10, seconds=600) is None


def test_pauses_are_no_bends() -> None:
    """A leak of each step is as sure where snapshots hold training up now and then."""
    series, at = Series(), 0.0
    for step in range(60):
        at += 12.0 if step % 9 == 0 else 0.5
        series = series.and_then(
            Point(at, step, MemoryLevel(used=15 * step, capacity=LIMIT))
        )
    forecast = series.forecast(Resource.DEVICE)
    assert forecast is not None
    assert forecast.confidence > SURE
    assert forecast.growth > 0


def test_no_time_at_all() -> None:
    """Steps that all happened at once have no pace; nothing is divided by it."""
    series = Series()
    for step in range(2 * FEWEST):
        series = series.and_then(
            Point(1.0, step, MemoryLevel(used=step, capacity=LIMIT))
        )
    forecast = series.forecast(Resource.DEVICE)
    assert forecast is not None
    assert forecast.growth == 0.0


def test_full_but_steady_is_left_alone() -> None:
    """Memory that is nearly full, and stays so, is no leak."""
    wobble = noise(1, 3)
    assert watched(lambda at: 985 + wobble(at), seconds=600) is None


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    slope=st.floats(-1e3, 1e3),
)
def test_a_trend_moves_with_what_is_added(values: list[float], slope: float) -> None:
    """A straight line on top of anything adds its slope to the trend."""
    points = [(float(at), value) for at, value in enumerate(values)]
    tilted = [(at, value + slope * at) for at, value in points]
    plain, added = trend_of(points), trend_of(tilted)
    assert added.slope == pytest.approx(plain.slope + slope, abs=1e-3, rel=1e-6)
    assert 0 <= added.confidence <= 1


@given(outliers=st.lists(st.integers(0, 29), max_size=7, unique=True))
def test_a_quarter_of_outliers_moves_nothing(outliers: list[int]) -> None:
    """The slope of a line stays near where it is, whatever a quarter of it does."""
    points = [
        (float(at), 1e9 if at in outliers else 100.0 + 2.0 * at) for at in range(30)
    ]
    assert trend_of(points).slope == pytest.approx(2.0)


def test_no_time_passed() -> None:
    """Readings of one moment have no trend."""
    assert trend_of([(1.0, 2.0), (1.0, 3.0)]).confidence == 0


def test_too_little_is_known() -> None:
    """Without readings, or with few, nothing is said."""
    assert Series().forecast(Resource.HOST) is None
    series = Series()
    for at in range(2 * FEWEST - 1):
        series = series.and_then(Point(at, at, MemoryLevel(used=at, capacity=9)))
    assert series.forecast(Resource.HOST) is None


def test_a_long_past_is_thinned_out() -> None:
    """The first reading stays, the newest stay, and there are never too many."""
    series = Series()
    for at in range(5000):
        series = series.and_then(Point(at, at, MemoryLevel(used=at, capacity=10_000)))
    assert len(series.points) <= KEPT
    assert series.points[0].step == 0
    assert series.points[-1].step == 4999
    forecast = series.forecast(Resource.HOST)
    assert forecast is not None
    assert forecast.seconds == pytest.approx(5001, rel=0.01)
    assert forecast.growth == pytest.approx(1)
    assert forecast.confidence > SURE


def test_readings_become_levels() -> None:
    """What a step needs for itself is no part of what may be kept."""
    reading = MemoryReading(
        at=1.0,
        in_use=300,
        peak=700,
        limit=1000,
        largest_allocatable=450,
        largest_request=200,
        rss=5,
        host_limit=10,
    )
    assert reading.step_bytes(None) == 400
    assert reading.levels(step_bytes=400) == {
        Resource.DEVICE: MemoryLevel(used=300, capacity=600),
        Resource.CONTIGUOUS: MemoryLevel(used=550, capacity=800),
        Resource.HOST: MemoryLevel(used=5, capacity=10),
    }
    assert MemoryReading(at=1.0).levels() == {}
    known = MemoryReading(at=1.0, in_use=300, limit=1000).levels()
    assert known == {Resource.DEVICE: MemoryLevel(used=300, capacity=1000)}


def test_a_watch_knows_each_resource() -> None:
    """Each has a forecast as soon as enough of it is known."""
    watch = MemoryTrends()
    for at in range(2 * FEWEST):
        host = 10 * at if at >= FEWEST else None
        reading = MemoryReading(
            at=at, step=at, in_use=5, limit=100, rss=host, host_limit=1000
        )
        watch = watch.and_then(reading)
    (device,) = watch.forecasts()
    assert device.resource is Resource.DEVICE
    assert device.seconds is None
    assert device.part == 0.05
    assert not device.imminent(WITHIN)


def test_no_capacity_is_full() -> None:
    """A step that needs more than there is leaves no capacity at all."""
    assert MemoryLevel(used=1, capacity=0).part == 1.0


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, True),
        ({"seconds": None}, False),
        ({"seconds": 21.0}, False),
        ({"seconds": 29.0, "watched_seconds": 1000.0}, True),
        ({"confidence": 0.998}, False),
        ({"used": 890.0}, False),
        ({"grown": 99.0}, False),
    ],
)
def test_when_a_restart_is_due(changes: dict[str, float | None], *, due: bool) -> None:
    """It must be sure, close and soon; soon is relative to the time watched."""
    known: dict[str, float | None] = {
        "seconds": 19.0,
        "confidence": 0.9995,
        "used": 950.0,
        "capacity": 1000.0,
        "growth": 1.0,
        "grown": 500.0,
        "watched_seconds": 100.0,
    }
    forecast = Forecast(resource=Resource.DEVICE, **{**known, **changes})  # type: ignore[arg-type]  # by name
    assert forecast.imminent(WITHIN) is due


def test_what_a_step_needs() -> None:
    """It is learned where the peak rises, from what was there before or is there now."""
    before = MemoryReading(at=1.0, in_use=500, peak=700, limit=1000)
    emptied = MemoryReading(at=2.0, in_use=100, peak=760, limit=1000)
    assert emptied.step_bytes(before) == 260
    assert emptied.step_bytes(None) == 660
    assert MemoryReading(at=2.0, in_use=600, peak=700).step_bytes(before) is None
    assert MemoryReading(at=2.0, rss=7).step_bytes(before) is None


def test_a_list_that_is_emptied_needs_no_room() -> None:
    """What a list held once is no part of what the next step needs."""
    watch = MemoryTrends()
    for step in range(40):
        kept = 20 * (step % 20)
        reading = MemoryReading(at=step, step=step, in_use=kept, peak=400, limit=1000)
        watch = watch.and_then(reading)
    assert watch.step_bytes == 400  # as the first reading of all says
    (device,) = watch.forecasts()
    assert device.capacity == 600


def test_what_is_nearly_full() -> None:
    """Any of the resources; and some of what is known can be forgotten."""
    watch = MemoryTrends().and_then(
        MemoryReading(at=0.0, in_use=850, peak=850, limit=1000)
    )
    watch = watch.and_then(MemoryReading(at=1.0, rss=1, host_limit=1000))
    assert watch.nearly(0.8)
    assert not watch.nearly(0.9)
    host = watch.only(Resource.HOST, Resource.CONTIGUOUS)
    assert not host.nearly(0.8)
    assert host.series.keys() == {Resource.HOST}
    assert host.step_bytes == 0
    assert not MemoryTrends().nearly(0.1)


def test_what_is_settled() -> None:
    """Of each resource enough is known for a forecast, and none is near its end."""
    watch = MemoryTrends()
    for at in range(ENOUGH):
        assert not watch.settled(0.5)
        watch = watch.and_then(MemoryReading(at=float(at), rss=400, host_limit=1000))
    assert watch.settled(0.5)
    assert not watch.settled(0.4)
    one = watch.and_then(MemoryReading(at=99.0, in_use=1, peak=1, limit=1000))
    assert not one.settled(0.5)


def test_a_list_that_is_emptied_each_epoch_is_left_alone() -> None:
    """However full it gets: it was as full before, and it went well."""
    assert watched(lambda at: 100 + 840 * (at % 30) / 30, seconds=32) is not None
    series = Series()
    for step in range(400):
        used = 100 + (880 if step < 60 else 840) * (step % 60) / 60
        series = series.and_then(
            Point(step / 2, step, MemoryLevel(used=used, capacity=LIMIT))
        )
        forecast = series.forecast(Resource.DEVICE)
        if step > 70 and forecast is not None:
            assert not forecast.imminent(WITHIN)


def test_a_leak_that_begins_late_is_foreseen() -> None:
    """After a long quiet time it fills what is left in some dozens of steps."""
    due = watched(lambda at: 200 + max(0.0, at - 500) * 20, seconds=540)
    assert due is not None
    assert due < 540
