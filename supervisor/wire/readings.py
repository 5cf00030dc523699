"""The newest readings of the allocator, as they lie on the page.

Training reads its allocator more often than anybody looks at its page: what grows
quickly would run out between two looks. The page keeps the last of them, whichever
order they lie in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

RECENT = 24
"""Readings that are kept."""

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorReading:
    """The allocator after a step, in bytes. None: not known."""

    ns: int
    """When, by the monotonic clock, in nanoseconds."""
    step: int
    """Steps done since the run began."""
    in_use: int
    peak: int
    limit: int | None = None
    largest_allocatable: int | None = None
    largest_request: int | None = None


_NAMES = tuple(field.name for field in fields(AllocatorReading))
_WIDTH = len(_NAMES)
_ALWAYS = 4
"""So many of them are always known."""
_row = attrgetter(*_NAMES)
INTEGERS = RECENT * _WIDTH
"""How many integers they take on the page."""


def pack(readings: Sequence[AllocatorReading]) -> tuple[int, ...]:
    """The newest of ``readings`` (oldest first) for the page; zeros where there is none."""
    newest = readings[-RECENT:]
    flat = [_UNKNOWN if n is None else n for one in newest for n in _row(one)]
    return (*flat, *(0,) * (INTEGERS - len(flat)))


def unpack(integers: Sequence[int], *, after_ns: int) -> list[AllocatorReading]:
    """Those that are newer than ``after_ns``, oldest first, whatever lies there."""
    known = max(after_ns, 0)
    begins = range(0, len(integers) - _WIDTH + 1, _WIDTH)
    newer = [integers[at : at + _WIDTH] for at in begins if integers[at] > known]
    return sorted(map(_reading, newer), key=attrgetter("ns"))


def _reading(row: Sequence[int]) -> AllocatorReading:
    optional = (None if one < 0 else one for one in row[_ALWAYS:])
    known: dict[str, Any] = dict(zip(_NAMES, (*row[:_ALWAYS], *optional), strict=True))
    return AllocatorReading(**known)
