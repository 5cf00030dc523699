"""When the process of the next attempt is started early, and when it is ended."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.lifecycle.standby_rules import (
    ENOUGH_SECONDS,
    MARGIN_BYTES,
    QUIET_SECONDS,
    StandbyFacts,
    StandbyMove,
    decide,
)

ROOM = 16 << 30
TRAINS = StandbyFacts(
    waits=False, wanted=True, stepped_seconds=QUIET_SECONDS, room_bytes=ROOM
)
WAITS = replace(TRAINS, waits=True)


@pytest.mark.parametrize(
    "facts",
    [
        replace(TRAINS, stepped_seconds=None),
        replace(TRAINS, stepped_seconds=QUIET_SECONDS / 2),
        replace(TRAINS, wanted=False),
    ],
)
def test_none_is_started_before_training_is_quiet_or_at_the_end(
    facts: StandbyFacts,
) -> None:
    """The first step has the processors for itself."""
    assert decide(facts).move is StandbyMove.NOTHING
    assert decide(TRAINS).move is StandbyMove.START


def test_it_ends_with_the_run() -> None:
    """A drain asks for it, and nothing is to be said of that."""
    decided = decide(replace(WAITS, wanted=False))
    assert (decided.move, decided.because) == (StandbyMove.END, "")


def test_it_waits_between_two_attempts() -> None:
    """That is when it is needed."""
    assert decide(replace(WAITS, stepped_seconds=None)).move is StandbyMove.NOTHING


SHORT = [
    ({"room_bytes": MARGIN_BYTES // 2}, "256 MiB of main memory are left"),
    ({"forecast_seconds": ENOUGH_SECONDS - 1}, "main memory runs out soon"),
    ({"ran_out": True}, "main memory had run out"),
]


@pytest.mark.parametrize(("change", "because"), SHORT)
def test_short_memory_ends_it_and_starts_none(
    change: dict[str, int], because: str
) -> None:
    """Training comes first; why it is so stands beside it."""
    for facts, move in ((TRAINS, StandbyMove.NOTHING), (WAITS, StandbyMove.END)):
        decided = decide(replace(facts, **change))  # type: ignore[arg-type]  # by name
        assert decided.move is move
        assert because in decided.because


def test_growth_that_leaves_time_and_unknown_room_are_no_shortage() -> None:
    """Nothing is known against it."""
    calm = replace(TRAINS, forecast_seconds=ENOUGH_SECONDS, room_bytes=None)
    assert decide(calm).move is StandbyMove.START


@given(room=st.integers(0, 4 << 30), size=st.integers(1, 2 << 30))
def test_one_that_was_started_is_not_ended_by_what_it_takes_itself(
    room: int, size: int
) -> None:
    """Twice its size and a margin are there at the start: with its own taken, the margin
    still is."""
    facts = replace(TRAINS, room_bytes=room, size_bytes=size)
    if decide(facts).move is StandbyMove.START:
        after = replace(facts, waits=True, room_bytes=room - size)
        assert decide(after).move is StandbyMove.NOTHING
    elif room < MARGIN_BYTES:
        assert decide(replace(facts, waits=True)).move is StandbyMove.END
