"""The results of trials, and how the numbers of one compare with those of another.

Trials of one script begin alike: the same seed, the same first batches. So their losses can
be compared step by step, and their step times in pairs, each step with the same of the
script as it is.

The limit between rounding and another computation is taken from what slices are checked
by: summed in another order, losses of a dozen steps differed by less than 1e-5, while
mistakes (a loss that is no mean, a BatchNormalization) showed in 1e-3 and more.
"""

import enum
import itertools
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from supervisor.core.memory.alternatives import (
    AS_IT_IS,
    AlternativeAxis,
    Combination,
    Numbers,
    slices_in,
)
from supervisor.core.memory.step_estimate import MARGIN
from supervisor.core.text.units import format_size
from supervisor.wire.records.trial_records import TrialEnd, TrialFit, TrialStep
from supervisor.wire.slices import TIGHT_PART, worst

ROUNDING_LIMIT = 1e-4
"""Losses that differ by a larger part are those of another computation."""
NOT_TOLD_APART = 2.0
"""So many times what the script differs from itself is nothing that an alternative did."""

MAY_NEED = (
    "steps differ, and one may need {} (the most seen is {}): a run chooses it only where"
    " nothing leaves more room"
)


class TrialOutcome(enum.StrEnum):
    """How a trial ended."""

    MEASURED = "measured"
    NO_ROOM = "out of memory"
    FAILED = "failed"
    NOT_APPLIED = "not applied"
    """The steps were made, but not so: the script has a setting of its own, say."""
    NOT_TRIED = "not tried"
    """It would find no room, by what is known of the script as it is."""
    TOO_NEAR = "too near the limit"
    """A step in so many slices came so near the limit that smaller ones were taken, by the
    rule of a run, or one of more steps may. A run may go on all the same, in smaller ones; it
    stays at such a number only where none leaves more room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial."""

    combination: Combination = AS_IT_IS
    outcome: TrialOutcome
    because: str = ""
    """Why it was not measured, in half a sentence."""
    fit: TrialFit | None = None
    """None: no ``fit`` was reached."""
    steps: tuple[TrialStep, ...] = ()
    end: TrialEnd | None = None
    deviations: tuple[str, ...] = ()
    """How slices change the result, a sentence each."""
    slices_made: int | None = None
    """In how many slices its last batch was worked through; None: as a whole, or it is not
    known."""
    limited: bool = True
    """Whether it was under the limit, if there is one."""

    @property
    def measured(self) -> bool:
        """Whether all its steps were made, as they were asked for."""
        return self.outcome is TrialOutcome.MEASURED

    @property
    def peak_bytes(self) -> int | None:
        """The highest of all steps; None: not known."""
        if not self.measured:
            return None
        return max((one.peak_bytes or 0 for one in self.steps), default=0) or None

    @property
    def step_seconds(self) -> float | None:
        """The median of a step, without the first call, which traces, and those for which
        batches were read ahead meanwhile; None: not known."""
        timed = [one for one in self.call_seconds if one is not None]
        return statistics.median(timed) if timed and self.measured else None

    @property
    def call_seconds(self) -> list[float | None]:
        """Of each call, for one of its steps; None: its time says nothing."""
        first = self.steps[0].steps if self.steps else 0
        untimed = first + (0 if self.fit is None else self.fit.untimed)
        ends = itertools.accumulate(one.steps for one in self.steps)
        return [
            one.seconds / one.steps if end - one.steps >= untimed else None
            for one, end in zip(self.steps, ends, strict=True)
        ]


def may_need(result: TrialResult) -> int | None:
    """Bytes that steps like those of the trial need at worst, by the arithmetic that a run
    measures its slices with; None: not known."""
    between = None if result.end is None else result.end.between_bytes
    peaks = [one.peak_bytes for one in result.steps if one.peak_bytes]
    if between is None or not peaks:
        return None
    added = [max(peak - between, 0) for peak in peaks]
    made = sum(one.steps for one in result.steps)
    return between + int(
        worst(usual=statistics.median(added), highest=max(added), steps=made)
    )


def judged(result: TrialResult, limit_bytes: int | None) -> TrialResult:
    """``result``, too near the limit where a run would not choose its slices: some of their
    steps may not find the room that those of the trial did."""
    need = may_need(result)
    sliced = asked(result.combination, AlternativeAxis.SLICES) is not None
    if not (sliced and result.measured and result.limited) or limit_bytes is None:
        return result
    if need is None or need <= TIGHT_PART * limit_bytes:
        return result
    because = MAY_NEED.format(format_size(need), format_size(result.peak_bytes or 0))
    return replace(result, outcome=TrialOutcome.TOO_NEAR, because=because)


def seen_bytes(result: TrialResult) -> int | None:
    """The highest peak of its steps, where all were made in the slices asked for, near the
    limit or not; None: they were not, or it is not known."""
    slices = slices_in(result.combination)
    near = result.outcome is TrialOutcome.TOO_NEAR and result.slices_made == slices
    if not (result.measured or near):
        return None
    return max((one.peak_bytes or 0 for one in result.steps), default=0) or None


def no_smaller(results: Iterable[TrialResult]) -> list[TrialResult]:
    """The trials of slices alone, by their number, that took as much memory as one of fewer
    slices or more; the script as it is has one."""
    alone = (one for one in results if set(axes_of(one)) <= {AlternativeAxis.SLICES})
    found: list[TrialResult] = []
    least: int | None = None
    for one in sorted(alone, key=lambda result: slices_in(result.combination)):
        seen = seen_bytes(one)
        if seen is None:
            continue
        if least is not None and seen >= least:
            found.append(one)
        least = seen if least is None else min(least, seen)
    return found


def axes_of(result: TrialResult) -> Iterable[AlternativeAxis]:
    """What it changes."""
    return (one.axis for one in result.combination)


def goes_on_in(results: Iterable[TrialResult]) -> tuple[int, int] | None:
    """The fewest and the most slices in which trials went on near the limit, and made all
    their steps. A run finds its own number.
    None: no trial did."""
    found = [
        one.slices_made
        for one in results
        if one.outcome is TrialOutcome.TOO_NEAR and one.slices_made is not None
    ]
    return (min(found), max(found)) if found else None


def is_tight(result: TrialResult, limit_bytes: int | None) -> bool:
    """Whether it came so near the limit that a long run may not fit."""
    peak = result.peak_bytes
    if limit_bytes is None or peak is None:
        return False
    return peak > (1 - MARGIN) * limit_bytes


def time_ratio(
    result: TrialResult, reference: TrialResult, again: TrialResult | None
) -> float | None:
    """How long a step takes, as a part of the same step of the script as it is: the median
    of all pairs but those of a first call. None: nothing can be compared.

    ``reference`` was tried before ``result``, ``again`` the same after it (None: it was
    not): the mean of both is what a machine that became slower meanwhile would show.
    """
    if not (result.measured and reference.measured):
        return None
    both = [reference] if again is None or not again.measured else [reference, again]
    theirs = zip(*map(_spread_seconds, both), strict=False)
    pairs = [
        mine / statistics.fmean(known)
        for mine, others in zip(_spread_seconds(result), theirs, strict=False)
        if mine is not None and (known := [one for one in others if one])
    ]
    return statistics.median(pairs) if pairs else None


def _spread_seconds(result: TrialResult) -> list[float | None]:
    """Of each step; None: its time says nothing."""
    calls = zip(result.steps, result.call_seconds, strict=True)
    return [seconds for one, seconds in calls for _ in range(one.steps)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersFound:
    """How the numbers of a trial compare with those of the script as it is."""

    numbers: Numbers
    difference: float | None = None
    """The largest relative difference of a loss; None: not known, or no number at all."""
    because: str = ""


def compared(
    result: TrialResult, reference: TrialResult | None, again: TrialResult | None
) -> NumbersFound:
    """Of ``result``, with ``reference``: the script as it is, and ``again``: once more;
    None: there was none."""
    declared = max(
        (one.expected for one in result.combination), key=_rank, default=Numbers.BITS
    )
    if not result.measured:
        return NumbersFound(numbers=Numbers.UNKNOWN)
    known = reference if reference is not None and reference.measured else None
    if declared is Numbers.DIFFERENT or result.deviations:
        found = None if known is None else difference(result, known)
        because = "; ".join(result.deviations)
        return NumbersFound(
            numbers=Numbers.DIFFERENT, difference=found, because=because
        )
    if known is None:
        because = "there is nothing to compare with"
        return NumbersFound(numbers=Numbers.UNKNOWN, because=because)
    if same_bits(result, known):
        return NumbersFound(numbers=Numbers.BITS, difference=0.0)
    return _by_losses(result, known, again, declared)


def _by_losses(
    result: TrialResult,
    reference: TrialResult,
    again: TrialResult | None,
    declared: Numbers,
) -> NumbersFound:
    found = difference(result, reference)
    if found is None:
        if _lost(result) and not _lost(reference):
            because = "the loss became NaN or infinite"
            return NumbersFound(numbers=Numbers.DIFFERENT, because=because)
        because = "there are no losses to compare"
        return NumbersFound(numbers=Numbers.UNKNOWN, because=because)
    own = None if again is None else difference(again, reference)
    if own is not None and own > 0 and found <= NOT_TOLD_APART * own:
        return NumbersFound(
            numbers=Numbers.UNKNOWN,
            difference=found,
            because=f"the script differs from itself by {own:.0e}",
        )
    if declared is Numbers.PRECISION:
        return NumbersFound(numbers=declared, difference=found)
    kept = found <= ROUNDING_LIMIT
    numbers = Numbers.ROUNDING if kept else Numbers.DIFFERENT
    return NumbersFound(numbers=numbers, difference=found)


def same_bits(one: TrialResult, other: TrialResult) -> bool:
    """Whether weights are the same after as many steps, and all losses that both told."""
    ends = one.end is not None and other.end is not None
    if not ends or _count(one) != _count(other):
        return False
    assert one.end is not None  # noqa: S101  # looked at above
    assert other.end is not None  # noqa: S101  # as well
    same = one.end.weights == other.end.weights
    alike = [step.steps for step in one.steps] == [step.steps for step in other.steps]
    if not alike:  # the mean of several losses is not summed as one is
        return same
    return same and [s.loss for s in one.steps] == [s.loss for s in other.steps]


def difference(one: TrialResult, other: TrialResult) -> float | None:
    """The largest relative difference of losses; None: there are none to compare, or one
    of them is no number."""
    found = 0.0
    mine, theirs = _losses(one), _losses(other)
    block = max((step.steps for step in (*one.steps, *other.steps)), default=1)
    pairs = list(zip(_means(mine, block), _means(theirs, block), strict=False))
    if not pairs:
        return None
    for first, second in pairs:
        if first is None or second is None:
            return None
        largest = max(abs(first), abs(second))
        found = max(found, abs(first - second) / largest if largest else 0.0)
    return found


def _losses(result: TrialResult) -> list[float | None]:
    """Of each step; the mean of a call stands for each of its steps."""
    return [one.loss for one in result.steps for _ in range(one.steps)]


def _means(losses: list[float | None], block: int) -> list[float | None]:
    """Of so many steps each; what is left over is not compared."""
    found: list[float | None] = []
    for start in range(0, len(losses) - block + 1, block):
        part = [one for one in losses[start : start + block] if one is not None]
        found.append(sum(part) / block if len(part) == block else None)
    return found


def _lost(result: TrialResult) -> bool:
    return any(one.loss is None for one in result.steps)


def _count(result: TrialResult) -> int:
    return sum(one.steps for one in result.steps)


def _rank(numbers: Numbers) -> int:
    return list(Numbers).index(numbers)


def asked(combination: Combination, axis: AlternativeAxis) -> str | None:
    """The value of an axis in it; None: it leaves that alone."""
    return next((one.value for one in combination if one.axis is axis), None)
