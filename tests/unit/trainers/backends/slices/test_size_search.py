"""The largest size that fits, by few questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.slices import balanced, count
from trainers.backends.slices.size_search import (
    MOST_COMPILED,
    SAFE_PART,
    FoundSize,
    Room,
    largest,
)


def searched(
    *, fixed: int, each: int, limit: int, batch: int, most: int
) -> FoundSize | None:
    """For steps that need ``fixed`` bytes, and so many more for each sample."""
    room = Room(limit_bytes=limit)
    return largest(lambda size: fixed + each * size, batch=batch, most=most, room=room)


@given(
    st.integers(0, 2000),
    st.integers(1, 50),
    st.integers(100, 20000),
    st.integers(2, 1 << 20),
    st.data(),
)
def test_what_is_found_fits(
    fixed: int, each: int, limit: int, batch: int, data: st.DataObject
) -> None:
    """It was asked for, and is no larger than allowed; along a line hardly a larger one
    that saves a slice fits as well."""
    most = data.draw(st.integers(1, batch - 1))
    found = searched(fixed=fixed, each=each, limit=limit, batch=batch, most=most)
    room = int(SAFE_PART * limit)
    if found is None:
        assert fixed + each > room
        return
    assert 1 <= found.size <= most
    assert found.size in found.needed
    assert found.needed[found.size] <= room
    assert len(found.needed) <= MOST_COMPILED
    slices = count(batch=batch, size=found.size)
    fewer = balanced(batch=batch, size=-(-batch // max(1, slices - 1)))
    if len(found.needed) < MOST_COMPILED and found.size < fewer <= most:
        assert fixed + each * fewer > room


def test_few_questions_are_asked() -> None:
    """One where the largest fits; three along a line."""
    easy = searched(fixed=10, each=1, limit=1000, batch=512, most=460)
    assert easy == FoundSize(size=256, needed={256: 266})
    hard = searched(fixed=10, each=4, limit=1000, batch=512, most=460)
    assert hard is not None
    assert (hard.size, sorted(hard.needed)) == (171, [32, 171, 256])


def test_what_others_hold_is_no_room() -> None:
    """Neither is what is left free."""
    room = Room(limit_bytes=1000, beside_bytes=300)
    assert room.for_step == int(SAFE_PART * 1000) - 300


def test_a_size_that_is_not_even_compiled_does_not_fit() -> None:
    """Compiling it found no memory."""
    found = largest(
        lambda size: None if size > 100 else size,
        batch=512,
        most=460,
        room=Room(limit_bytes=1000),
    )
    assert found is not None
    assert found.size <= 100
    assert found.size == pytest.approx(86, abs=54)
