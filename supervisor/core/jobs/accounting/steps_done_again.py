"""Steps done again after attempts that were ended at once: no incident tells of those.

A person who stops a run twice does not wait for its state to be saved. What lay between its
newest snapshot and its end is done again when the run goes on, as after a crash.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """From which step to which an attempt went. None: not known, or not yet."""

    restored_step: int | None
    last_step: int | None
    told: bool
    """Whether an incident tells of its end, and with it of all that was done again of what
    had been reached until then."""


def untold_steps(attempts: Iterable[AttemptSpan]) -> int:
    """Steps that ``attempts`` of one run, oldest first, did again beside those that
    incidents tell of. As with incidents, those of an attempt that still runs count from the
    moment on in which it is known from which step it went on."""
    total = reached = 0
    for one in attempts:
        if one.restored_step is not None:
            last = reached if one.last_step is None else min(one.last_step, reached)
            total += max(last - one.restored_step, 0)
        reached = 0 if one.told else max(reached, one.last_step or 0)
    return total
