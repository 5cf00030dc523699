"""The room that the record of a loop is stored in."""

from hypothesis import given
from hypothesis import strategies as st

from trainers.loops.loop_state import LEAST_ROOM, room_for

SIZES = st.integers(0, 1 << 34)


@given(SIZES)
def test_there_is_room_and_not_much_more(nbytes: int) -> None:
    """At most a quarter more, and the least."""
    room = room_for(nbytes)
    assert room >= max(nbytes, LEAST_ROOM)
    assert room <= max(nbytes * 1.25 + 1, LEAST_ROOM)


@given(SIZES, SIZES)
def test_more_needs_no_less(one: int, other: int) -> None:
    """It grows with what is in it."""
    least, most = sorted((one, other))
    assert room_for(least) <= room_for(most)


@given(st.integers(LEAST_ROOM, 1 << 34))
def test_it_seldom_changes(nbytes: int) -> None:
    """Some four sizes from one power of two to the next."""
    sizes = {room_for(nbytes + nbytes * part // 64) for part in range(65)}
    assert len(sizes) <= 6
