"""The countdown of trials, for who waits: the how manyth of how many, and how long yet."""

import statistics

from supervisor.core.text.units import format_duration


class TrialCountdown:
    """Counts the trials of one script."""

    def __init__(self) -> None:
        self._begun = 0
        self._left: int | None = None
        self._seconds: list[float] = []

    @property
    def left(self) -> int | None:
        """Trials that are to come at most, beside what was begun; None: not known yet."""
        return self._left

    def expect(self, left: int) -> None:
        """So many are to come at most, the next one included."""
        self._left = left

    def begin(self) -> str:
        """The next one begins: which of how many it is, and how long they take."""
        self._begun += 1
        if self._left is None:
            return (
                "how many trials there are, and how long they take, is known after it"
            )
        most = self._begun - 1 + self._left
        said = f"{self._begun} of at most {most}"
        if self._seconds:
            each = statistics.fmean(self._seconds)
            yet = format_duration(each * self._left)
            said += (
                f"; about {yet} at most, if all take {format_duration(each)} as so far"
            )
        self._left -= 1
        return said

    def took(self, seconds: float) -> None:
        """A trial is over, that was made in a process."""
        self._seconds.append(seconds)
