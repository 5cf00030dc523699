"""Pacing: the most bytes a second, kept on average over what is sent at once."""

from dataclasses import dataclass


@dataclass(slots=True)
class SendingPace:
    """When the next bytes may go. Times are monotonic seconds."""

    bytes_per_second: int | None = None
    """None: as fast as it goes."""
    _free_at: float = 0.0

    def begin(self, nbytes: int, *, now: float) -> float:
        """How many seconds ``nbytes`` must wait; they are counted as sent."""
        if self.bytes_per_second is None:
            return 0.0
        starts = max(now, self._free_at)
        self._free_at = starts + nbytes / self.bytes_per_second
        return starts - now
