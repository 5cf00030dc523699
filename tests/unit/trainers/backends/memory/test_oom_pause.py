"""Standing still where memory would run out before the supervisor has looked again."""

import time

import pytest

from supervisor.wire.readings import AllocatorReading
from trainers.backends.memory import oom_pause
from trainers.backends.memory.oom_pause import OomPause, near

LIMIT = 1000
STEP = 100


def readings(last: int, *, seconds: float, rise: int = 200) -> list[AllocatorReading]:
    """Readings that end at ``last`` bytes in use."""
    first = last - rise
    return [
        AllocatorReading(
            ns=int(1e9 * seconds * at / 9),
            step=at,
            in_use=first + rise * at // 9,
            peak=last + STEP,
            limit=LIMIT,
        )
        for at in range(10)
    ]


def test_near_is_full_and_fast() -> None:
    """Room for steps counts, and the pace; a long way or a slow pace is not near."""
    assert near(readings(820, seconds=1.0), step_bytes=STEP)
    assert not near(readings(820, seconds=60.0), step_bytes=STEP)
    assert not near(readings(800, seconds=1.0), step_bytes=STEP)
    assert not near(readings(820, seconds=1.0, rise=0), step_bytes=STEP)
    assert not near(readings(820, seconds=1.0)[:3], step_bytes=STEP)


def test_it_waits_until_it_is_asked() -> None:
    """The request to end is the answer, and nothing is waited for after it."""
    answers = iter([False, False, True])
    began = time.monotonic()
    one = OomPause(lambda: next(answers), answers=True)
    assert not one.stand(readings(850, seconds=1.0), step_bytes=0)
    assert one.stand(readings(950, seconds=1.0), step_bytes=0)
    assert time.monotonic() - began < oom_pause.HOLD_SECONDS
    assert next(answers, None) is None


def test_it_waits_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again only where it is twice as near, and not more than a few times."""
    monkeypatch.setattr(oom_pause, "HOLD_SECONDS", 0.0)
    one = OomPause(lambda: False, answers=True)
    stood = [
        one.stand(readings(last, seconds=1.0), step_bytes=0)
        for last in (930, 940, 970, 980, 990, 999)
    ]
    assert stood == [True, False, True, False, True, False]


def test_nobody_waits_for_nobody() -> None:
    """Where no restart would be planned, none is waited for."""
    one = OomPause(lambda: False, answers=False)
    assert not one.stand(readings(950, seconds=1.0), step_bytes=0)
