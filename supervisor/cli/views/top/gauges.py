"""Small drawings in a line: sparklines, and a bar of what is used of a limit."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.text.units import format_size

BARS = "▁▂▃▄▅▆▇█"
FULL, FREE = "█", "░"
KEPT = 24
"""Readings a sparkline shows."""


def sparkline(values: Sequence[float]) -> str:
    """``values`` as bars, the lowest and the highest of them at the ends."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1))] for v in values)


def share_bar(share: float, width: int) -> str:
    """``share`` (0 to 1) of ``width`` cells filled; what is used at all is seen, and
    only what is full looks full."""
    full = int(max(min(share, 1.0), 0.0) * width)
    if share > 0:
        full = max(full, 1)
    return FULL * full + FREE * (width - full)


def size_of_limit(used: float, limit: float, *, about: bool = False) -> str:
    """``212 of 280 MiB``; ``about``: the limit is an estimate."""
    of, whole = format_size(used), format_size(limit)
    number, _, unit = of.partition(" ")
    if whole.endswith(f" {unit}"):
        of = number
    return f"{of} of {'about ' if about else ''}{whole}"


class RecentSamples:
    """The last readings of each job."""

    def __init__(self) -> None:
        self.memory = defaultdict[str, deque[float]](lambda: deque(maxlen=KEPT))
        self.seconds = defaultdict[str, deque[float]](lambda: deque(maxlen=KEPT))

    def add(self, job: Mapping[str, Any]) -> None:
        """One reading."""
        for known, name in (
            (self.memory, "memory_in_use_bytes"),
            (self.seconds, "step_seconds"),
        ):
            if job.get(name) is not None:
                known[job["job"]].append(float(job[name]))
