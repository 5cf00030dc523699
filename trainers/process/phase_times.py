"""The time that an attempt has spent in each phase, the one that lasts included.

What is published only grows: it becomes a counter of the run, and what an attempt said
last counts when it is killed. The clock is an argument. Standard library only.
"""

from supervisor.wire.page import Phase


class PhaseTimes:
    """Seconds by phase. Not safe from several threads."""

    def __init__(self, *, now_ns: int) -> None:
        """An attempt that starts at ``now_ns`` (monotonic, as everywhere here)."""
        self.phase = Phase.STARTING
        self.since_ns = now_ns
        """When the phase that lasts began."""
        self._over = [0.0] * len(Phase)
        """In phases that are over."""
        self._elsewhere = 0.0
        """Of the phase that lasts: what was counted as another one's already."""
        self._stepped_ns: int | None = None
        """... and when that was last."""
        self._told = 0.0
        """Of the phase that lasts: what was told of it."""

    def enter(self, phase: Phase, *, now_ns: int) -> None:
        """Another phase begins, and the one that lasts is over."""
        self._over[self.phase] += max(self._lasted(now_ns), self._told)
        self.phase, self.since_ns = phase, now_ns
        self._elsewhere = self._told = 0.0
        self._stepped_ns = None

    def spend_in(self, phase: Phase, seconds: float, *, now_ns: int) -> None:
        """The last ``seconds`` of the phase that lasts were time of ``phase``."""
        self._over[phase] += seconds
        self._elsewhere += seconds
        self._stepped_ns = now_ns

    def tell(self, *, now_ns: int) -> tuple[float, ...]:
        """Seconds by phase until now; none of them is ever less than it was told before.

        Of a phase in which steps of another are counted, the time since the last of them
        is left out: whether it is a step's is known when that is done.
        """
        until = now_ns if self._stepped_ns is None else self._stepped_ns
        self._told = max(self._lasted(until), self._told)
        seconds = list(self._over)
        seconds[self.phase] += self._told
        return tuple(seconds)

    def _lasted(self, until_ns: int) -> float:
        return (until_ns - self.since_ns) / 1e9 - self._elsewhere
