"""Contestants measured in turns: in which order, and what a table says of them."""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

AnyContestant = TypeVar("AnyContestant")
FEWEST_STEPS = 12
"""What was compiled is kept by then."""


class Quartiles(NamedTuple):
    """Of a row of numbers."""

    low: float
    middle: float
    high: float

    def text(self, form: str) -> str:
        """As printed: the median, and the others beside it."""
        low, middle, high = (format(one, form) for one in self)
        return f"{middle} ({low} to {high})"


@dataclass
class RestartRow:
    """What one contestant did with one model."""

    name: str
    seconds: dict[int, float] = field(default_factory=dict)
    """By round: from the fault to the first new step."""
    again: list[int] = field(default_factory=list)
    """Steps that were done a second time."""
    phases: list[Mapping[str, float]] = field(default_factory=list)
    why_not: str = ""
    """Why it has no more rounds."""


def in_turn(contestants: Sequence[AnyContestant], number: int) -> list[AnyContestant]:
    """The order of round ``number`` (from 0): ABBA, so that a machine that grows busier is
    so for all alike."""
    return list(contestants if number % 2 == 0 else contestants[::-1])


def steps_before(number: int, *, epoch: int) -> int:
    """After how many steps the fault of a round comes, the same for all: anywhere in an
    epoch."""
    drawn = random.Random(number).randrange(epoch)  # noqa: S311  # drawn to be drawn again
    return FEWEST_STEPS + drawn


def quartiles(values: Sequence[float]) -> Quartiles:
    """Of at least one value."""
    if len(values) == 1:
        return Quartiles(*[values[0]] * 3)
    return Quartiles(*statistics.quantiles(values, n=4, method="inclusive"))


def ratios(row: RestartRow, base: RestartRow) -> list[float]:
    """Of the rounds in which both have a figure."""
    both = row.seconds.keys() & base.seconds.keys()
    return [row.seconds[one] / base.seconds[one] for one in sorted(both)]


def phase_medians(row: RestartRow) -> dict[str, float]:
    """What each phase of its restarts took; of one that is not in all, where it is."""
    names = list(dict.fromkeys(name for one in row.phases for name in one))
    return {
        name: statistics.median(one[name] for one in row.phases if name in one)
        for name in names
    }


def table_line(row: RestartRow, bases: Sequence[RestartRow]) -> str:
    """As printed: seconds, steps done again, and the ratio to each base."""
    if not row.seconds:
        return f"{row.name:24} {row.why_not}"
    seconds = quartiles(list(row.seconds.values())).text(".1f")
    again = statistics.median(row.again)
    parts = [f"{row.name:24} {seconds:>22} s {again:6.1f}"]
    for base in bases:
        found = ratios(row, base)
        parts.append(f"{quartiles(found).text('.2f') if found else '-':>22}")
    return "  ".join([*parts, row.why_not]).rstrip()


def phase_line(row: RestartRow) -> str | None:
    """As printed: the phases one after the other; None: it tells of none."""
    found = phase_medians(row)
    if not found:
        return None
    return f"{row.name:24} " + ", ".join(f"{n} {s:.2f}" for n, s in found.items())


def target_line(
    row: RestartRow, bases: Sequence[RestartRow], target: float
) -> str | None:
    """Whether the target is met beside the better of the bases, and else which phase
    costs most; None: it was not compared."""
    compared = [quartiles(found).middle for b in bases if (found := ratios(row, b))]
    if not compared:
        return None
    worst, phases = max(compared), phase_medians(row)
    told = f"{row.name:24} {worst:.2f} of the target's {target:.2f}: "
    if worst <= target:
        return told + "met"
    most = max(phases, key=lambda name: phases[name], default=None)
    return told + "missed" + (f"; most went to: {most}" if most else "")
