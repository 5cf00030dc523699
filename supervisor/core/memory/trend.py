"""The trend of a series: the median of the slopes between all pairs of its values.

Theil 1950; Sen, J. Am. Stat. Assoc. 63, 1968. A quarter of the values may be outliers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

NORMAL = 1.4826
"""Standard deviation over median absolute deviation, where errors are normal."""
MOST_ALIKE = 0.9
"""More than this resemblance of neighbours is the trend's own doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a series grows."""

    slope: float
    """Per step: the median."""
    confidence: float
    """That it grows at all: 0 to 1."""


def trend_of(values: Sequence[tuple[float, float]]) -> Trend:
    """The trend of (step, value) pairs in order; two or more."""
    slope = slope_of(values)
    if slope <= 0:
        return Trend(slope=slope, confidence=0.0)
    rest = [value - slope * at for at, value in values]
    middle = median(rest)
    scatter = NORMAL * median([abs(value - middle) for value in rest])
    alike = min(max(_neighbours(rest), 0.0), MOST_ALIKE)
    independent = len(values) * (1 - alike) / (1 + alike)
    # The error of a line's slope through n points evenly spread over a length T is
    # sigma * sqrt(12 / n) / T.
    rise = slope * (values[-1][0] - values[0][0])
    error = scatter * math.sqrt(12 / independent)
    return Trend(
        slope=slope, confidence=math.erf(rise / error / math.sqrt(2)) if error else 1.0
    )


def slope_of(values: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs; 0 without two steps."""
    slopes = [
        (later - earlier) / (after - before)
        for (before, earlier), (after, later) in combinations(values, 2)
        if after > before
    ]
    return median(slopes) if slopes else 0.0


def _neighbours(values: Sequence[float]) -> float:
    """Correlation of each value with the next; 0 for a constant."""
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    if spread == 0:
        return 0.0
    together = math.fsum((a - mean) * (b - mean) for a, b in pairwise(values))
    return together / spread
