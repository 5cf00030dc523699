"""When the next snapshot is due."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """The directive's interval, or one planned from what a snapshot costs.

    Planned: a snapshot may hold training up for ``budget`` of its time, so the interval
    is the stall divided by the budget, within bounds.
    """

    every_steps: int | None = None
    every_seconds: float | None = None
    budget: float = 0.01
    shortest_seconds: float = 2.0
    longest_seconds: float = 300.0

    @property
    def given(self) -> bool:
        """Whether the interval was asked for, not planned."""
        return self.every_steps is not None or self.every_seconds is not None

    def interval_seconds(self, *, stall_seconds: float) -> float:
        """The planned interval for snapshots that stall training so long."""
        planned = stall_seconds / self.budget
        return min(max(planned, self.shortest_seconds), self.longest_seconds)

    def due(self, *, steps: int, seconds: float, stall_seconds: float | None) -> bool:
        """Whether one is due ``steps`` and ``seconds`` after the last.

        ``stall_seconds`` is what the last one cost; None: there was none yet, and
        then the first is due at once, so that the first steps (and the random initial
        weights they came from) cannot be lost.
        """
        if steps < 1:
            return False
        if self.given:
            by_steps = self.every_steps is not None and steps >= self.every_steps
            by_time = self.every_seconds is not None and seconds >= self.every_seconds
            return by_steps or by_time
        if stall_seconds is None:
            return True
        return seconds >= self.interval_seconds(stall_seconds=stall_seconds)
