"""What was promised of a run's result: as much as of the weakest of its calls of fit."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpromised:
    """A call of ``fit`` that is not promised to end to the bit as it would have."""

    fit: int | None
    """Its number, from 0; None: an older version did not tell."""
    because: str


def weakest(told: Iterable[Unpromised | None]) -> Unpromised | None:
    """The first of ``told``, of the earliest call: all that follows builds on it."""
    found = [one for one in told if one is not None]
    return min(found, key=lambda one: -1 if one.fit is None else one.fit, default=None)
