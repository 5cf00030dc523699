"""The record of a loop: a row of bytes that is read as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.loops.event_log import (
    MOST_KINDS,
    Event,
    EventKind,
    EventLog,
    OtherWayError,
)

EVENTS = st.lists(
    st.builds(
        Event, st.sampled_from(EventKind), st.integers(0, MOST_KINDS), st.binary()
    )
)


def written(events: list[Event]) -> EventLog:
    """A log of these, to be read."""
    log = EventLog(bytearray())
    for event in events:
        log.add(*event)
    assert log.count == len(events)
    return EventLog(log.data)


@given(EVENTS)
def test_what_was_written_is_read(events: list[Event]) -> None:
    """In order, to the end, and not further."""
    log = written(events)
    assert [log.next(*EventKind) for _ in events] == events
    assert log.is_read
    assert log.count == len(events)
    with pytest.raises(OtherWayError, match="the record ends"):
        log.next(*EventKind)


@given(EVENTS, st.sampled_from(EventKind))
def test_another_kind_is_another_way(events: list[Event], kind: EventKind) -> None:
    """It is refused, and named."""
    log = written(events)
    for event in events:
        if event.kind is kind:
            assert log.next(kind) == event
        else:
            with pytest.raises(OtherWayError, match=f"was {event.kind.name.lower()}"):
                log.next(kind)
            return
