"""Scales of charts: round ticks for figures, sizes and times."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.core.text.units import format_duration

Form = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From a value to a place between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where ``value`` is drawn."""
        span = (self.high - self.low) or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)


def ticks(low: float, high: float, *, count: int = 4) -> list[float]:
    """Round numbers from ``low`` to ``high``: 1, 2 or 5 times a power of ten apart."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(f * power for f in (1, 2, 5, 10) if f * power * count >= span)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def byte_unit(high: float) -> tuple[float, str]:
    """The unit in which sizes up to ``high`` are written."""
    return (2.0**30, "GiB") if high >= 2**30 else (2.0**20, "MiB")


def time_unit(high: float) -> tuple[float, str]:
    """The unit in which times up to ``high`` seconds are written."""
    units = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
    return next(((f, name) for f, name in units if high >= 2 * f), (1.0, "s"))


def figure(value: float) -> str:
    """A number as people write it: four digits, thousands apart."""
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def seconds_text(value: float) -> str:
    """A time, also one of milliseconds."""
    return f"{value * 1000:.3g} ms" if abs(value) < 1 else format_duration(value)
