"""Which sizes are tried: few, far from each other, and none that may not fit."""

from hypothesis import given
from hypothesis import strategies as st

from trainers.estimate.trial_sizes import (
    CLOSE,
    FAR,
    NO_ROOM,
    NO_TIME,
    SAFE_PART,
    TrialLimits,
    TriedSize,
    first_size,
    next_size,
)


def limits(
    *,
    batch: int = 1024,
    room: int = 10**12,
    seconds: float = 1e6,
    compiles: bool = False,
) -> TrialLimits:
    """Wide ones, where nothing else is said."""
    return TrialLimits(
        batch=batch, room_bytes=room, seconds=seconds, steps=4, compiles=compiles
    )


def tried(size: int, *, added: int = 1000, seconds: float = 0.1) -> TriedSize:
    """Steps of one size."""
    return TriedSize(
        size=size, added_bytes=added, step_seconds=seconds, first_seconds=20.0
    )


@given(batch=st.integers(1, 10**6), compiles=st.booleans())
def test_all_sizes_up_to_the_batch(batch: int, *, compiles: bool) -> None:
    """With room and time the last is the batch itself, after two others at most but for
    what rounding adds; each is no more than FAR times the one before."""
    sizes = [first_size(batch, compiles=compiles)]
    while True:
        size, because = next_size(
            [tried(one) for one in sizes], limits(batch=batch, compiles=compiles)
        )
        if size is None:
            break
        assert sizes[-1] < size <= FAR * sizes[-1]
        sizes.append(size)
    assert because == ""
    assert sizes[-1] == batch
    assert len(sizes) <= 5


@given(
    size=st.integers(1, 1000),
    added=st.integers(1, 10**9),
    room=st.integers(0, 10**9),
    seconds=st.floats(0.0, 1000.0),
)
def test_no_size_is_tried_that_may_not_fit(
    size: int, added: int, room: int, seconds: float
) -> None:
    """A size g times as large adds g times as much at most."""
    found, because = next_size(
        [tried(1), tried(size, added=added)],
        limits(batch=2000, room=room, seconds=seconds),
    )
    if found is None:
        assert because in {NO_ROOM, NO_TIME}
    else:
        assert found >= min(2000, size * CLOSE) - 1
        assert found * added <= SAFE_PART * room * size * (1 + 1e-9) + added


def test_two_sizes_are_tried_whatever_the_time() -> None:
    """One alone says nothing of others; a third has to have its time."""
    short = limits(seconds=0.0)
    assert next_size([tried(64, seconds=1.0)], short) == (256, "")
    assert next_size([tried(64), tried(256)], short) == (None, NO_TIME)


def test_where_tracing_took_the_time_the_batch_itself_is_second() -> None:
    """A line through smaller ones was 28 % too low for a NASNet whose first step took 100
    s; but not where its steps take long as well, or it might not fit."""
    quick, slow = tried(2, seconds=0.16), tried(2, seconds=1.0)
    assert next_size([quick], limits(batch=32, seconds=2.0)) == (32, "")
    assert next_size([quick], limits(batch=32, seconds=60.0)) == (8, "")
    assert next_size([slow], limits(batch=32, seconds=2.0)) == (8, "")
    tight = limits(batch=32, seconds=2.0, room=10_000)
    assert next_size([quick], tight) == (18, "")
    compiled = limits(batch=32, seconds=2.0, compiles=True)
    assert next_size([quick], compiled) == (8, "")


def test_compiling_takes_its_time() -> None:
    """Where each size is compiled anew, what is left must be enough for that, too."""
    both = [tried(64), tried(256)]
    assert next_size(both, limits(seconds=21.0)) == (1024, "")
    assert next_size(both, limits(seconds=20.5, compiles=True)) == (None, NO_TIME)


def test_where_there_is_no_room() -> None:
    """It is said, and nothing is tried."""
    assert next_size([tried(64)], limits(room=1000)) == (None, NO_ROOM)
