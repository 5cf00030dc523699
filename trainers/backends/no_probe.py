"""Memory where no allocator tells of itself, such as a CPU's: nothing is said of it."""

from typing import Any

from trainers.process.attempt_reporting import Attempt


class NoProbe:
    """Reads nothing."""

    glance_due = float("inf")

    def __init__(self, _attempt: Attempt, *, limit_bytes: int | None) -> None:
        """``limit_bytes``: what the supervisor set."""
        self._limit = limit_bytes

    def begin(self) -> None:
        """As there is nothing to read."""

    def forget(self) -> None:
        """As above."""

    def mark(self) -> Any | None:
        """As above."""
        return None

    def limit(self) -> int | None:
        """What was set."""
        return self._limit

    def due(self, _now: float) -> bool:
        """Never."""
        return False

    def glance(self, _now: float, *, step: int) -> None:
        """As above."""

    def look(self, *, step: int) -> Any | None:  # noqa: ARG002  # of the Protocol
        """Nothing was read."""
        return None
