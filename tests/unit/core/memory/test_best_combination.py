"""Which of all trials is advised, and what is worth a trial together."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.memory.alternatives import (
    AS_IT_IS,
    MIXED_BFLOAT16,
    MOST_SLICES,
    ON,
    Alternative,
    AlternativeAxis,
    Combination,
    Numbers,
    combined,
    of_slices,
    size_of_slice,
    slices_in,
)
from supervisor.core.memory.best_combination import (
    ALIKE,
    SLICES,
    Compared,
    alike_by,
    best,
    faster_near_limit,
    faster_otherwise,
    least_memory,
    least_peak,
    next_slices,
    to_combine,
)
from supervisor.core.memory.trial_results import (
    NumbersFound,
    TrialOutcome,
    TrialResult,
    is_tight,
)
from supervisor.wire.records.trial_records import TrialEnd, TrialStep
from supervisor.wire.slices import fewest

LIMIT = 1000
JIT = Alternative(axis=AlternativeAxis.JIT, value=ON)
HALF = Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_BFLOAT16)
AGAIN = Alternative(axis=AlternativeAxis.RECOMPUTATION, value=ON)
LION = Alternative(axis=AlternativeAxis.OPTIMIZER, value="Lion")


def measured(
    combination: Combination, *, peak: int = 500, limited: bool = True
) -> TrialResult:
    """A trial that came to its end."""
    steps = (TrialStep(steps=1, seconds=0.1, loss=1.0, peak_bytes=peak),) * 3
    return TrialResult(
        combination=combination,
        outcome=TrialOutcome.MEASURED,
        steps=steps,
        end=TrialEnd(between_bytes=100, weights="w"),
        limited=limited,
    )


def one(
    *parts: Alternative,
    peak: int | None = 500,
    ratio: float | None = 1.0,
    numbers: Numbers = Numbers.ROUNDING,
    outcome: TrialOutcome = TrialOutcome.NO_ROOM,
) -> Compared:
    """A trial; without a peak it came to that outcome."""
    combination = combined(parts)
    if peak is None:
        result = TrialResult(combination=combination, outcome=outcome)
        unknown = NumbersFound(numbers=Numbers.UNKNOWN)
        return Compared(result=result, numbers=unknown, ratio=None)
    found = NumbersFound(numbers=numbers)
    return Compared(result=measured(combination, peak=peak), numbers=found, ratio=ratio)


PARTS = (of_slices(2), of_slices(4), of_slices(8), JIT, HALF, AGAIN, LION)
alternatives = st.builds(
    one,
    st.sampled_from(PARTS),
    peak=st.none() | st.integers(1, 2 * LIMIT),
    ratio=st.none() | st.floats(0.1, 10),
    numbers=st.sampled_from(Numbers),
    outcome=st.sampled_from(
        [
            TrialOutcome.NO_ROOM,
            TrialOutcome.FAILED,
            TrialOutcome.NOT_APPLIED,
            TrialOutcome.NOT_TRIED,
        ]
    ),
)
trials = st.lists(alternatives, max_size=7, unique_by=lambda each: each.combination)


@given(trials, st.none() | st.just(LIMIT), st.floats(1.0, 3.0))
def test_what_is_advised_was_measured_and_nothing_of_its_kind_is_notably_better(
    tried: list[Compared], limit: int | None, alike: float
) -> None:
    """Nothing that fits with more room, keeps the numbers better, or is shorter by more
    than what is taken for the same."""
    chosen = best(tried, limit, alike=alike)
    fitting = [each for each in tried if each.result.measured]
    assert (chosen is None) == (not fitting)
    if chosen is None:
        return
    assert chosen.result.measured
    for other in fitting:
        tight = (is_tight(chosen.result, limit), is_tight(other.result, limit))
        if tight[0] is tight[1]:
            assert chosen.changes <= other.changes
        assert tight <= (True, True)
        assert tight[0] <= tight[1]
        same = tight[0] is tight[1] and chosen.changes == other.changes
        if same and other.ratio is not None:
            assert chosen.ratio is not None
            assert chosen.ratio <= alike * other.ratio


@given(trials, st.randoms())
def test_the_order_of_trials_does_not_matter(
    tried: list[Compared], random: "object"
) -> None:
    """What is advised is as good, in whatever order they were made."""
    shuffled = list(tried)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis' Random
    first, second = best(tried, LIMIT), best(shuffled, LIMIT)
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert first.changes == second.changes
        assert first.result.peak_bytes == second.result.peak_bytes


def test_what_is_not_under_the_limit_is_not_advised() -> None:
    """It was measured for the others to be compared with."""
    numbers = NumbersFound(numbers=Numbers.BITS)
    roomy = measured(AS_IT_IS, limited=False)
    assert best([Compared(result=roomy, numbers=numbers, ratio=1.0)], LIMIT) is None


def test_numbers_come_before_time_and_time_before_memory() -> None:
    """As the rules of the module have it."""
    slow, half = one(of_slices(4), ratio=2.0), one(HALF, numbers=Numbers.PRECISION)
    assert best([slow, half], LIMIT) is slow
    fast = one(JIT, ratio=0.5, peak=800)
    assert best([slow, half, fast], LIMIT) is fast
    bits = one(AGAIN, ratio=0.52, numbers=Numbers.BITS)
    assert best([fast, bits], LIMIT) is bits
    tight = one(AGAIN, ratio=0.1, numbers=Numbers.BITS, peak=950)
    assert best([fast, tight], LIMIT) is fast
    assert best([tight], LIMIT) is tight


def test_what_was_not_compared_counts_as_what_it_is_known_for() -> None:
    """Slices before fewer bits, where the script itself never fitted."""
    sliced = one(of_slices(8), ratio=None, numbers=Numbers.UNKNOWN)
    half = one(HALF, ratio=None, numbers=Numbers.UNKNOWN)
    assert best([half, sliced], LIMIT) is sliced
    assert one(numbers=Numbers.UNKNOWN).changes == 0


def test_other_choices_that_a_person_may_want() -> None:
    """The fastest whatever the numbers, and the least memory with them."""
    chosen = one(of_slices(4), ratio=1.2, peak=500)
    quick = one(HALF, ratio=0.6, numbers=Numbers.PRECISION)
    small = one(of_slices(8), ratio=2.0, peak=300)
    tried = [chosen, quick, small, one(JIT, peak=None)]
    assert faster_otherwise(tried, chosen) is quick
    assert faster_otherwise([chosen, small], chosen) is None
    assert faster_otherwise(tried, None) is None
    assert faster_otherwise(tried, one(JIT, ratio=None)) is None
    assert least_memory(tried) is small
    assert least_memory([quick]) is None


@pytest.mark.parametrize(
    ("own", "alike"), [(None, ALIKE), (0.0, ALIKE), (1.0, ALIKE), (1.2, 1.4), (0.5, 3)]
)
def test_what_the_script_differs_by_itself_counts_twice(
    own: float | None, alike: float
) -> None:
    """One pair tells little of how much pairs differ."""
    assert alike_by(own) == pytest.approx(alike)


# --- slices ---


def test_slices_are_doubled_until_two_of_them_fit() -> None:
    """As one that fits tells little of those that follow."""
    tried: list[TrialResult] = []
    asked: list[int] = []
    while (slices := next_slices(tried, batch=256, fits=False)) is not None:
        asked.append(slices)
        fits = slices >= 8
        alternative = (of_slices(slices),)
        tried.append(
            measured(alternative)
            if fits
            else TrialResult(combination=alternative, outcome=TrialOutcome.NO_ROOM)
        )
    assert asked == [2, 4, 8, 16, 6, 7], "and those between, for a run takes the fewest"


@given(st.integers(2, 300), st.integers(2, 300))
def test_a_number_of_slices_that_a_run_would_find_is_found(
    batch: int, needed: int
) -> None:
    """Ten samples that fit in five slices: there are no eight of them, and no end at four.
    The fewest that share the batch out evenly and fit are tried."""
    tried: list[TrialResult] = []
    while (slices := next_slices(tried, batch=batch, fits=False)) is not None:
        alternative = (of_slices(slices),)
        assert size_of_slice(batch, slices) is not None
        assert alternative not in {one.combination for one in tried}
        tried.append(
            measured(alternative)
            if slices >= needed
            else TrialResult(combination=alternative, outcome=TrialOutcome.NO_ROOM)
        )
    fitted = [slices_in(one.combination) for one in tried if one.measured]
    wanted = fewest(batch=batch, at_least=needed)
    assert min(fitted, default=None) == wanted or needed > MOST_SLICES


@given(st.integers(1, 300), st.booleans())
def test_slices_come_to_an_end(batch: int, fits: bool) -> None:  # noqa: FBT001  # Hypothesis
    """Where none fits too, and each has samples."""
    tried: list[TrialResult] = []
    while (slices := next_slices(tried, batch=batch, fits=fits)) is not None:
        assert 2 <= slices <= batch
        assert not fits or slices in SLICES
        alternative = (of_slices(slices),)
        tried.append(TrialResult(combination=alternative, outcome=TrialOutcome.NO_ROOM))
    assert len(tried) < 9


def test_a_batch_that_is_not_sliced_is_not_tried_again() -> None:
    """With more slices it would be the same."""
    failed = TrialResult(combination=(of_slices(2),), outcome=TrialOutcome.NOT_APPLIED)
    assert next_slices([failed], batch=64, fits=False) is None


def test_the_least_that_is_needed() -> None:
    """A part of what a step adds, and all that lies there between steps."""
    whole = measured(AS_IT_IS, peak=900)
    assert least_peak(whole, (of_slices(4),)) == 100 + 800 // 4
    assert least_peak(whole, (of_slices(4), HALF)) == 100 + 800 // 8
    assert least_peak(whole, (JIT,)) == 0
    failed = TrialResult(outcome=TrialOutcome.NO_ROOM)
    assert least_peak(failed, (of_slices(2),)) == 0


# --- combinations ---


@given(trials, st.none() | st.just(LIMIT), st.integers(0, 5), st.booleans())
def test_combinations_are_new_few_and_of_parts_that_may_work(
    tried: list[Compared],
    limit: int | None,
    at_most: int,
    known: bool,  # noqa: FBT001  # Hypothesis
) -> None:
    """Nothing that failed, or was not applied, is in one; nor what is known not to fit."""
    whole = measured(AS_IT_IS, peak=1500) if known else None
    found = to_combine(tried, as_it_is=whole, limit_bytes=limit, at_most=at_most)
    usable = {
        each.combination[0]
        for each in tried
        if each.result.outcome not in {TrialOutcome.FAILED, TrialOutcome.NOT_APPLIED}
    }
    assert len(found) <= at_most
    assert len(set(found)) == len(found)
    for combination in found:
        assert len(combination) > 1
        assert combination == combined(combination)
        assert set(combination) <= usable
        assert combination not in {each.combination for each in tried}


def test_what_failed_alone_for_want_of_memory_is_tried_together() -> None:
    """Where nothing fits, the combination that may need least comes first."""
    tried = [one(part, peak=None) for part in (of_slices(2), HALF, AGAIN, LION)]
    found = to_combine(tried, as_it_is=None, limit_bytes=LIMIT, at_most=1)
    assert set(found[0]) == {of_slices(2), HALF, AGAIN, LION}


def test_only_what_may_be_better_is_tried() -> None:
    """Faster with the same numbers, and nothing that keeps them less."""
    tried = [
        one(of_slices(4), peak=400, ratio=1.0),
        one(JIT, peak=900, ratio=0.8),
        one(HALF, peak=700, ratio=0.5, numbers=Numbers.PRECISION),
        one(AGAIN, peak=1500, ratio=1.2),
    ]
    whole = measured(AS_IT_IS, peak=1500)
    found = to_combine(tried, as_it_is=whole, limit_bytes=LIMIT, at_most=9)
    assert found == []
    quick = [one(of_slices(4), peak=400, ratio=0.9), *tried[1:]]
    found = to_combine(quick, as_it_is=whole, limit_bytes=LIMIT, at_most=9)
    assert found == [(of_slices(4), JIT)]


def test_what_found_no_room_needs_a_second_part_that_saves_memory() -> None:
    """XLA is none, where it found no room itself."""
    tried = [one(of_slices(2), peak=None), one(JIT, peak=None), one(AGAIN, peak=None)]
    found = to_combine(tried, as_it_is=None, limit_bytes=LIMIT, at_most=9)
    assert (of_slices(2), JIT) not in found
    assert (of_slices(2), AGAIN) in found
    fits = one(of_slices(4), ratio=1.5, peak=900)
    whole = measured(AS_IT_IS, peak=1500)
    found = to_combine([*tried, fits], as_it_is=whole, limit_bytes=LIMIT, at_most=9)
    assert found[0] == (of_slices(2), AGAIN)
    assert (of_slices(2), JIT) not in found
    near = one(of_slices(4), ratio=1.05, peak=900)
    assert not to_combine([*tried, near], as_it_is=whole, limit_bytes=LIMIT, at_most=9)


def test_parts_that_would_not_fit_together_are_left_out() -> None:
    """By the product of what each leaves, where that is known."""
    tried = [
        one(JIT, peak=1400, ratio=0.5),
        one(AGAIN, peak=1400, ratio=0.5),
    ]
    whole = measured(AS_IT_IS, peak=1500)
    assert to_combine(tried, as_it_is=whole, limit_bytes=LIMIT, at_most=9) == []
    assert to_combine(tried, as_it_is=whole, limit_bytes=None, at_most=9)


def test_better_numbers_are_worth_a_trial_whatever_the_time() -> None:
    """Where only a lower precision fits so far."""
    tried = [
        one(HALF, peak=700, ratio=0.5, numbers=Numbers.PRECISION),
        one(of_slices(2), peak=None),
        one(AGAIN, peak=None),
    ]
    found = to_combine(tried, as_it_is=None, limit_bytes=LIMIT, at_most=9)
    assert found[0] == (of_slices(2), AGAIN)
    slow = [
        one(HALF, peak=700, ratio=None, numbers=Numbers.PRECISION),
        one(LION, peak=600, ratio=0.5, numbers=Numbers.DIFFERENT),
    ]
    assert to_combine(slow, as_it_is=None, limit_bytes=LIMIT, at_most=9) == []


def test_all_pairs_of_axes_can_be_combined() -> None:
    """None is shut out by another."""
    for first, second in itertools.combinations((of_slices(2), JIT, HALF, AGAIN), 2):
        assert slices_in(combined([first, second])) in {1, 2}


def test_what_is_faster_near_the_limit_is_named_where_it_was_passed_over() -> None:
    """Not what changes the numbers more, is hardly faster, has room, or was never under
    the limit."""
    chosen = one(numbers=Numbers.BITS)
    tight = one(JIT, peak=950, ratio=0.5)
    others = [
        one(HALF, peak=950, ratio=0.3, numbers=Numbers.PRECISION),
        one(AGAIN, peak=950, ratio=0.99),
        one(of_slices(2), peak=500, ratio=0.4),
        one(LION, peak=None),
    ]
    assert faster_near_limit([chosen, *others], chosen, LIMIT) is None
    assert faster_near_limit([chosen, *others, tight], chosen, LIMIT) is tight
    assert faster_near_limit([chosen, tight], chosen, None) is None
    assert faster_near_limit([tight], None, LIMIT) is None
