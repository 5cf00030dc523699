"""The clocks: monotonic for every interval, wall time for people only."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's clocks. Tests pass one of their own."""

    def now(self) -> float:
        """Monotonic seconds; the same clock in every process of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970: to be shown, never subtracted."""
        return time.time()  # noqa: TID251  # the one place
