"""The record of a loop: what came back from each call and each look at a variable.

A row of bytes that grows at its end. Each event is its kind, a number of the table of its
kind (what was called with arguments of which shapes, what came back; which variable) and
its content. A step of a small model takes some 20 bytes.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

HEAD = struct.Struct("<BHI")
"""Kind, number in the table, bytes of content."""
MOST_KINDS = (1 << 16) - 1


class EventKind(IntEnum):
    """What happened."""

    CALL = 0
    TRACED = 1
    """A call for which the function was traced first."""
    LOOKED_AT = 2
    """The script looked at a variable that calls have changed."""
    EVALUATED = 3
    """``evaluate`` or ``predict``."""
    WRITTEN = 4
    """A file with the state was written."""


class Event(NamedTuple):
    """One of them."""

    kind: EventKind
    number: int
    content: bytes


class OtherWayError(Exception):
    """The script did something else than what was recorded; the text says what."""


@dataclass(slots=True)
class EventLog:
    """ChangedVariables at its end, read from its beginning."""

    data: bytearray
    place: int = 0
    """Where the next event is read."""
    count: int = 0
    """Events written, or read."""

    def add(self, kind: EventKind, number: int, content: bytes) -> None:
        """One more, ``number`` at most ``MOST_KINDS``."""
        self.data += HEAD.pack(kind, number, len(content))
        self.data += content
        self.count += 1

    @property
    def is_read(self) -> bool:
        """Whether there is nothing more to read."""
        return self.place >= len(self.data)

    def next(self, *kinds: EventKind) -> Event:
        """The next event, which is to be one of ``kinds``. Raises OtherWayError."""
        wanted = " or ".join(kind.name.lower() for kind in kinds)
        if self.is_read:
            message = f"the record ends before {wanted}"
            raise OtherWayError(message)
        kind, number, nbytes = HEAD.unpack_from(self.data, self.place)
        if kind not in kinds:
            was = EventKind(kind).name.lower()
            message = f"event {self.count} was {was}, and is {wanted} now"
            raise OtherWayError(message)
        start = self.place + HEAD.size
        self.place = start + nbytes
        self.count += 1
        return Event(EventKind(kind), number, bytes(self.data[start : self.place]))
