"""A pause for the supervisor, where memory would run out before it has looked again.

It sees the page once a second; a script that keeps a tensor in each of its fast steps fills
what is left in less. So training stands still at a step boundary, once the end is that
near: long enough for the supervisor to see the readings and to ask for a snapshot. If
it does not ask, the growth was none to be afraid of, and training goes on.
"""

import time
from collections.abc import Callable, Sequence

from supervisor.wire.readings import AllocatorReading

NEAR = 0.9
"""From this part of what steps may keep on: there the supervisor plans restarts."""

WITHIN_SECONDS = 2.0
"""What is left lasts no longer than this, at the pace of the newest readings."""

HOLD_SECONDS = 2.0
"""The supervisor sees the page once a second, and its signal goes through the shim."""

MOST_HOLDS = 3
"""In one attempt: what this costs a training that is never asked is bounded."""

POLL_SECONDS = 0.01

FEWEST = 4
"""Readings below which there is no pace."""


def near(readings: Sequence[AllocatorReading], *, step_bytes: int) -> bool:
    """Whether the end is near; ``step_bytes``: what a step needs for itself."""
    if len(readings) < FEWEST or readings[-1].limit is None:
        return False
    first, last = readings[0], readings[-1]
    room = readings[-1].limit - step_bytes
    grown, seconds = last.in_use - first.in_use, (last.ns - first.ns) / 1e9
    if grown <= 0 or last.in_use < NEAR * room:
        return False
    return (room - last.in_use) * seconds <= WITHIN_SECONDS * grown


class OomPause:
    """The waiting of one attempt."""

    def __init__(self, asked: Callable[[], bool], *, answers: bool) -> None:
        """``asked``: whether the supervisor wants this attempt to end; ``answers``:
        whether it would say so."""
        self._asked = asked
        self._left = MOST_HOLDS if answers else 0
        self._room: float | None = None

    def stand(self, readings: Sequence[AllocatorReading], *, step_bytes: int) -> bool:
        """Stand still if the end is near, and nearer than it was the last time."""
        if not self._left or not near(readings, step_bytes=step_bytes):
            return False
        room = (readings[-1].limit or 0) - step_bytes - readings[-1].in_use
        if self._room is not None and room > self._room / 2:
            return False
        self._left, self._room = self._left - 1, room
        until = time.monotonic() + HOLD_SECONDS
        while not self._asked() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return True
