"""The search for the largest slice that fits, where the memory of a step is known before
it runs; and no step is run for it.

Each size that is asked for has to be compiled, so few are: the largest that may be, a
small one, and where the line through two of them reaches the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.wire.slices import balanced

SAFE_PART = 0.93
"""Of the limit, that is used: the pool of a running fit is not as tidy as one before."""
MOST_COMPILED = 6
"""So many sizes are compiled, at most."""
FAR_PART = 8
"""The line through two sizes is drawn from one that is this part of the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What steps may need."""

    limit_bytes: int
    beside_bytes: int = 0
    """In use for what is none of the model's state."""

    @property
    def for_step(self) -> int:
        """Bytes for a step with its state and its batches."""
        return int(SAFE_PART * self.limit_bytes) - self.beside_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSize:
    """What the search ended with."""

    size: int
    needed: dict[int, int]
    """Bytes for each size that was compiled."""


def largest(
    needs: Callable[[int], int | None], *, batch: int, most: int, room: Room
) -> FoundSize | None:
    """The largest size up to ``most`` samples that has ``room``; None: not even one
    sample has.

    ``needs``: bytes for a size. Only fewer slices save time, so sizes are those that share
    out the ``batch`` evenly.
    """
    known: dict[int, int] = {}

    def fits(size: int) -> bool:
        found = needs(size)
        known[size] = 2 * room.limit_bytes if found is None else found
        return known[size] <= room.for_step

    size = balanced(batch=batch, size=most)
    if fits(size):
        return FoundSize(size=size, needed=known)
    small = max(1, size // FAR_PART)
    while not fits(small):
        if small == 1:
            return None
        last = len(known) + 1 >= MOST_COMPILED
        small = 1 if last else max(1, small // FAR_PART)
    best, failed = small, min(one for one in known if one > small)
    while len(known) < MOST_COMPILED:
        size = balanced(batch=batch, size=_on_the_line(known, best, failed, room))
        if not best < size < failed:
            break
        best, failed = (size, failed) if fits(size) else (best, size)
    return FoundSize(size=best, needed=known)


def _on_the_line(known: dict[int, int], best: int, failed: int, room: Room) -> int:
    """Where the line through a size that fits, and one that does not, reaches the end."""
    slope = (known[failed] - known[best]) / (failed - best)
    return best + int((room.for_step - known[best]) / max(1.0, slope))
