"""The best combination of alternatives: what to try together, and which of all to advise.

Rules, in order:

1. Only what was measured and fits is advised; what fits with room to spare before what
   came near the limit (``trial_results.is_tight``).
2. What keeps the numbers (bits, rounding) before a lower precision, that before another
   computation, whatever the time: a person may choose otherwise, we do not.
3. The shortest step, and of those that are about as short (``alike``: by as much as the
   script differs from itself) the numbers to the bit, then fewer changes, then less memory.

Combinations are tried, not promised: parts that saved memory or time alone, or alone found
no room, the most promising first, by the product of what each did alone.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisor.core.memory.alternatives import (
    MOST_SLICES,
    Alternative,
    AlternativeAxis,
    Combination,
    Numbers,
    combined,
    size_of_slice,
    slices_in,
)
from supervisor.core.memory.trial_results import (
    NumbersFound,
    TrialOutcome,
    TrialResult,
    is_tight,
)
from supervisor.wire.slices import fewest

NOTABLE = 0.97
"""A part of the time or the memory that is worth a change."""
WORTH_A_HOPE = 0.9
"""... where it is hoped for: a part of it was not measured alone."""
TWO = 2
"""Where none fits alone, at least so many have to save memory."""
ALIKE = 1.05
"""Step times within this factor are taken for the same."""
UNMEASURED_PEAK = 0.7
"""What an alternative is hoped to leave of the peak that alone found no room."""
MOST_PARTS = 4
SLICES = (2, 4, 8)
"""That are tried where nothing is short."""

_KEPT = 0
_ORDER = {
    Numbers.BITS: _KEPT,
    Numbers.ROUNDING: _KEPT,
    Numbers.PRECISION: 1,
    Numbers.DIFFERENT: 2,
    Numbers.UNKNOWN: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A trial, beside the script as it is."""

    result: TrialResult
    numbers: NumbersFound
    ratio: float | None
    """Of the step time; None: not known."""

    @property
    def combination(self) -> Combination:
        """What it changes."""
        return self.result.combination

    @property
    def changes(self) -> int:
        """How far the numbers go from those of the script: 0: not at all."""
        found = self.numbers.numbers
        if found is Numbers.UNKNOWN:
            return max((_ORDER[one.expected] for one in self.combination), default=0)
        return _ORDER[found]


def best(
    trials: Sequence[Compared], limit_bytes: int | None, *, alike: float = ALIKE
) -> Compared | None:
    """The one to advise; None: none fits. What is not under the limit is passed over.

    ``alike``: step times within this factor are taken for the same.
    """
    fitting = [one for one in trials if one.result.measured and one.result.limited]
    roomy = [one for one in fitting if not is_tight(one.result, limit_bytes)] or fitting
    kept = min((one.changes for one in roomy), default=_KEPT)
    among = [one for one in roomy if one.changes == kept]
    shortest = min(map(_time, among), default=math.inf)
    short = [one for one in among if _time(one) <= alike * shortest]
    return min(short, key=_simplest, default=None)


def _simplest(one: Compared) -> tuple[float, ...]:
    return (
        one.numbers.numbers is not Numbers.BITS,
        len(one.combination),
        one.result.peak_bytes or math.inf,
        _time(one),
    )


def _time(one: Compared) -> float:
    return math.inf if one.ratio is None else one.ratio


def alike_by(own_ratio: float | None) -> float:
    """Within which factor step times are taken for the same, where the script, tried
    twice, took ``own_ratio`` times as long; None: nobody knows.

    One pair tells little of how much pairs differ: twice that is allowed for.
    """
    if own_ratio is None or own_ratio <= 0:
        return ALIKE
    return max(ALIKE, 1 + 2 * (max(own_ratio, 1 / own_ratio) - 1))


def least_memory(trials: Sequence[Compared]) -> Compared | None:
    """That with the lowest peak of those that keep the numbers; None: none is known."""
    known = [
        one
        for one in trials
        if one.result.limited and one.result.peak_bytes and one.changes == _KEPT
    ]
    return min(known, key=lambda one: one.result.peak_bytes or 0, default=None)


def faster_otherwise(
    trials: Sequence[Compared], chosen: Compared | None, *, alike: float = ALIKE
) -> Compared | None:
    """The fastest that fits and changes the numbers more than ``chosen``, where that is
    notable; None: there is none."""
    found = [
        one
        for one in _notably_faster(trials, chosen, alike=alike)
        if chosen is not None and one.changes > chosen.changes
    ]
    return min(found, key=_time, default=None)


def faster_near_limit(
    trials: Sequence[Compared],
    chosen: Compared | None,
    limit_bytes: int | None,
    *,
    alike: float = ALIKE,
) -> Compared | None:
    """The fastest that was passed over since it came near the limit, where that is notable
    and the numbers change no more than those of ``chosen``; None: there is none."""
    found = [
        one
        for one in _notably_faster(trials, chosen, alike=alike)
        if chosen is not None
        and one.changes <= chosen.changes
        and is_tight(one.result, limit_bytes)
    ]
    return min(found, key=_time, default=None)


def _notably_faster(
    trials: Sequence[Compared], chosen: Compared | None, *, alike: float
) -> list[Compared]:
    """Those under the limit."""
    if chosen is None or chosen.ratio is None:
        return []
    fitting = (one for one in trials if one.result.measured and one.result.limited)
    return [one for one in fitting if _time(one) < chosen.ratio / alike]


# --- slices ---


def next_slices(
    trials: Sequence[TrialResult],
    *,
    batch: int,
    fits: bool,
) -> int | None:
    """The number of slices to try next; None: no more.

    Where the batch ``fits`` as it is, the first few are enough. Else at least twice the last
    until one fits, and twice that; then those between it and what did not fit, of which a
    run would take the fewest that do. ``trials``: all so far.
    """
    tried = [one for one in trials if len(one.combination) == 1 and _sliced(one)]
    last = max((slices_in(one.combination) for one in tried), default=1)
    if fits:
        return 2 * last if 2 * last in SLICES and _possible(batch, 2 * last) else None
    if any(map(_hopeless, tried)):
        return None
    fitted = sorted(slices_in(one.combination) for one in tried if one.measured)
    if fitted[:1] in ([], [last]):
        more = _more(batch, last)
        if more is not None or not fitted:
            return more
    failed = [slices_in(one.combination) for one in tried if not one.measured]
    least = max((one for one in failed if one < fitted[0]), default=1)
    return _between(batch, least, fitted[0])


def _more(batch: int, last: int) -> int | None:
    """Twice as many, or the next number that the batch can be shared out in."""
    if last >= min(batch, MOST_SLICES):
        return None
    return fewest(batch=batch, at_least=min(2 * last, batch))


def _between(batch: int, failed: int, fitted: int) -> int | None:
    """The middle of what lies between a number that did not fit, and one that did."""
    for at_least in ((failed + fitted) // 2, failed + 1):
        found = fewest(batch=batch, at_least=max(at_least, failed + 1))
        if found is not None and found < fitted:
            return found
    return None


def _hopeless(one: TrialResult) -> bool:
    """More slices would end as it did."""
    return one.outcome in {TrialOutcome.FAILED, TrialOutcome.NOT_APPLIED}


def _sliced(one: TrialResult) -> bool:
    return slices_in(one.combination) > 1


def _possible(batch: int, slices: int) -> bool:
    return size_of_slice(batch, slices) is not None


def least_peak(as_it_is: TrialResult, combination: Combination) -> int:
    """Bytes that ``combination`` needs at least, as far as that can be told; 0: it cannot.

    What a step adds to what lies there between steps is the highest of several sums,
    ``constant + slope * size`` each: a part of the batch adds at least that part of it.
    Half as many bits in a number leave at least half.
    """
    peak, end = as_it_is.peak_bytes, as_it_is.end
    if peak is None or end is None or end.between_bytes is None:
        return 0
    if any(one.axis not in _BOUNDED for one in combination):
        return 0
    halves = (
        2 if any(one.axis is AlternativeAxis.PRECISION for one in combination) else 1
    )
    added = max(peak - end.between_bytes, 0)
    return end.between_bytes + added // (slices_in(combination) * halves)


_BOUNDED = frozenset({AlternativeAxis.SLICES, AlternativeAxis.PRECISION})


# --- combinations ---


_SAVES_NOTHING = frozenset(
    {
        AlternativeAxis.JIT,
        AlternativeAxis.STEPS_PER_EXECUTION,
        AlternativeAxis.MAPS,
        AlternativeAxis.XLA_AUTOTUNE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SingleEffect:
    """What an alternative did alone, to the script as it is."""

    alternative: Alternative
    ratio: float
    peak: float
    known: bool
    fits: bool
    """Alone."""
    changes: int

    @property
    def saves(self) -> bool:
        """Whether it may leave less of the peak, where it found no room alone: XLA, say,
        is no way to save memory then."""
        return self.alternative.axis not in _SAVES_NOTHING

    @property
    def helps(self) -> bool:
        """Whether it may be worth its change."""
        return not self.known or self.ratio < NOTABLE or self.peak < NOTABLE


def to_combine(
    trials: Sequence[Compared],
    *,
    as_it_is: TrialResult | None,
    limit_bytes: int | None,
    at_most: int,
) -> list[Combination]:
    """The combinations that are worth a trial, the most promising first.

    ``trials``: what was tried so far; ``as_it_is``: the script, wherever it was measured.
    """
    parts = [part for part in _parts(trials, as_it_is) if part.helps]
    chosen = best(trials, limit_bytes)
    done = {one.combination for one in trials}
    whole = None if as_it_is is None else as_it_is.peak_bytes
    found: list[tuple[tuple[float, ...], Combination]] = []
    for group in _groups(parts):
        combination = combined([part.alternative for part in group])
        promise = _promise(group, whole, limit_bytes)
        if combination in done or promise is None or not _better(promise, chosen):
            continue
        found.append((_order(promise, len(group), chosen), combination))
    found.sort(key=lambda one: one[0])
    return [combination for _, combination in found[:at_most]]


_USABLE = frozenset(
    {
        TrialOutcome.MEASURED,
        TrialOutcome.NO_ROOM,
        TrialOutcome.TOO_NEAR,
        TrialOutcome.NOT_TRIED,
    }
)
"""What found no room alone may find it with something else."""


def _groups(parts: Sequence[_SingleEffect]) -> Iterator[tuple[_SingleEffect, ...]]:
    for size in range(2, MOST_PARTS + 1):
        for group in itertools.combinations(parts, size):
            if len({part.alternative.axis for part in group}) == size:
                yield group


def _parts(
    trials: Sequence[Compared], as_it_is: TrialResult | None
) -> Iterator[_SingleEffect]:
    whole = None if as_it_is is None else as_it_is.peak_bytes
    alone = [one for one in trials if len(one.combination) == 1]
    for one in alone:
        if one.result.outcome in _USABLE:
            yield _part_of(one, whole)


def _part_of(one: Compared, whole: int | None) -> _SingleEffect:
    peak = one.result.peak_bytes
    known = one.result.measured
    return _SingleEffect(
        alternative=one.combination[0],
        ratio=1.0 if one.ratio is None else one.ratio,
        peak=peak / whole if peak and whole else UNMEASURED_PEAK,
        known=known and one.ratio is not None,
        fits=known,
        changes=one.changes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    """What parts would do together, if each did what it did alone."""

    changes: int
    ratio: float
    peak: float
    known: bool


def _promise(
    group: Sequence[_SingleEffect], whole: int | None, limit_bytes: int | None
) -> _Promise | None:
    """None: they would not fit."""
    peak = math.prod(part.peak for part in group)
    known = all(part.known for part in group)
    if known and whole and limit_bytes and peak * whole > limit_bytes:
        return None
    if not any(part.fits for part in group) and sum(part.saves for part in group) < TWO:
        return None
    return _Promise(
        changes=max(part.changes for part in group),
        ratio=math.prod(part.ratio for part in group),
        peak=peak,
        known=known,
    )


def _better(promise: _Promise, chosen: Compared | None) -> bool:
    """Whether it may be better than what was chosen so far."""
    if chosen is None or promise.changes < chosen.changes:
        return True
    if promise.changes > chosen.changes:
        return False
    worth = NOTABLE if promise.known else WORTH_A_HOPE
    return chosen.ratio is None or promise.ratio < worth * chosen.ratio


def _order(promise: _Promise, parts: int, chosen: Compared | None) -> tuple[float, ...]:
    """Where nothing fits yet, memory counts before numbers and time."""
    if chosen is None:
        return (promise.peak, promise.changes, promise.ratio, parts)
    return (promise.changes, promise.ratio, parts, promise.peak)
