"""How the numbers and times of trials compare with those of the script as it is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.memory.alternatives import (
    MIXED_BFLOAT16,
    Alternative,
    AlternativeAxis,
    Combination,
    Numbers,
    of_slices,
)
from supervisor.core.memory.trial_results import (
    TrialOutcome,
    TrialResult,
    asked,
    compared,
    difference,
    goes_on_in,
    is_tight,
    judged,
    may_need,
    no_smaller,
    same_bits,
    time_ratio,
)
from supervisor.wire.records.trial_records import TrialEnd, TrialStep
from tests.support.advice import FIT

SLICED = (of_slices(4),)
HALF = (Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_BFLOAT16),)
LION = (Alternative(axis=AlternativeAxis.OPTIMIZER, value="Lion"),)
LOSSES = (2.0, 1.5, 1.25, 1.0)


def step(
    loss: float | None, *, seconds: float = 0.1, steps: int = 1, peak: int | None = 100
) -> TrialStep:
    """One call."""
    return TrialStep(steps=steps, seconds=seconds, loss=loss, peak_bytes=peak)


def result(
    *steps: TrialStep,
    combination: Combination = (),
    weights: str = "w",
    deviations: tuple[str, ...] = (),
) -> TrialResult:
    """A trial that was measured."""
    return TrialResult(
        combination=combination,
        outcome=TrialOutcome.MEASURED,
        steps=steps,
        end=TrialEnd(between_bytes=10, weights=weights),
        deviations=deviations,
    )


def losing(
    *losses: float | None,
    combination: Combination = (),
    weights: str = "w",
    deviations: tuple[str, ...] = (),
) -> TrialResult:
    """One with these losses."""
    return result(
        *map(step, losses),
        combination=combination,
        weights=weights,
        deviations=deviations,
    )


BASE = losing(*LOSSES)
FAILED = TrialResult(outcome=TrialOutcome.NO_ROOM)


def test_the_same_weights_and_losses_are_the_same_bits() -> None:
    """Both, and after as many steps."""
    assert compared(BASE, BASE, BASE).numbers is Numbers.BITS
    assert same_bits(BASE, BASE)
    assert not same_bits(BASE, losing(*LOSSES[:3]))
    assert not same_bits(BASE, losing(2.0, 1.5, 1.25, 1.1))
    assert not same_bits(BASE, losing(*LOSSES, weights="v"))
    assert not same_bits(BASE, FAILED)
    assert not same_bits(FAILED, BASE)


def test_several_steps_in_a_call_are_compared_by_their_mean() -> None:
    """The weights say whether the bits are the same."""
    calls = result(step(1.75, steps=2), step(1.125, steps=2))
    assert compared(calls, BASE, None).numbers is Numbers.BITS
    assert difference(calls, BASE) == 0.0
    other = result(step(1.75, steps=2), step(1.5, steps=2), weights="v")
    assert compared(other, BASE, None).numbers is Numbers.DIFFERENT
    assert difference(other, BASE) == pytest.approx(0.25)


def test_a_small_difference_is_rounding_and_a_large_one_is_not() -> None:
    """By the largest of all steps."""
    near = losing(2.0, 1.5, 1.25, 1.00001, combination=SLICED, weights="v")
    found = compared(near, BASE, None)
    assert found.numbers is Numbers.ROUNDING
    assert found.difference == pytest.approx(1e-5, rel=1e-3)
    far = losing(2.0, 1.6, 1.25, 1.0, combination=SLICED, weights="v")
    assert compared(far, BASE, None).numbers is Numbers.DIFFERENT


def test_what_is_known_to_compute_otherwise_is_never_called_rounding() -> None:
    """However near its losses come: an optimizer, deviations of slices, fewer bits."""
    near = (2.0, 1.5, 1.25, 1.0)
    lion = compared(losing(*near, combination=LION), BASE, None)
    assert lion.numbers is Numbers.DIFFERENT
    deviates = losing(*near, combination=SLICED, deviations=("BatchNormalization",))
    found = compared(deviates, BASE, None)
    assert found.numbers is Numbers.DIFFERENT
    assert found.because == "BatchNormalization"
    half = losing(2.0, 1.5, 1.25, 1.01, combination=HALF, weights="v")
    assert compared(half, BASE, None).numbers is Numbers.PRECISION
    alone = losing(*near, combination=LION)
    assert compared(alone, None, None).numbers is Numbers.DIFFERENT


def test_what_the_script_differs_by_itself_is_not_laid_to_an_alternative() -> None:
    """Nothing is said of the numbers then, but how much that is."""
    again = losing(2.0, 1.5, 1.25, 1.1, weights="u")
    other = losing(2.0, 1.5, 1.25, 1.15, combination=SLICED, weights="v")
    found = compared(other, BASE, again)
    assert found.numbers is Numbers.UNKNOWN
    assert "differs from itself" in found.because
    far = losing(2.0, 3.0, 1.25, 1.0, combination=SLICED, weights="v")
    assert compared(far, BASE, again).numbers is Numbers.DIFFERENT


def test_nothing_is_said_where_there_is_nothing_to_compare() -> None:
    """No reference, no losses, no trial."""
    assert compared(FAILED, BASE, None).numbers is Numbers.UNKNOWN
    unknown = compared(losing(*LOSSES, combination=SLICED), None, None)
    assert unknown.numbers is Numbers.UNKNOWN
    assert compared(BASE, FAILED, None).because == "there is nothing to compare with"
    silent = losing(None, None, weights="v")
    assert compared(silent, losing(None, None), None).because.startswith("there are no")
    assert difference(result(), BASE) is None


def test_a_loss_that_is_lost_is_another_computation() -> None:
    """float16 without its scale, say."""
    lost = losing(2.0, None, None, None, combination=HALF, weights="v")
    found = compared(lost, BASE, None)
    assert found.numbers is Numbers.DIFFERENT
    assert found.because == "the loss became NaN or infinite"


def test_losses_of_zero_are_alike() -> None:
    """No difference is a part of nothing."""
    assert difference(losing(0.0), losing(0.0)) == 0.0


@given(st.lists(st.floats(0.001, 100), min_size=2, max_size=9), st.floats(0.1, 10))
def test_times_are_compared_step_by_step(seconds: list[float], factor: float) -> None:
    """What takes so many times as long in every step has that ratio, however steps
    differ."""
    one = result(*(step(1.0, seconds=each) for each in seconds))
    other = result(*(step(1.0, seconds=factor * each) for each in seconds))
    assert time_ratio(other, one, None) == pytest.approx(factor)
    assert time_ratio(one, one, one) == pytest.approx(1.0)


def test_a_machine_that_became_slower_meanwhile() -> None:
    """Counts half: the script as it is was tried before and after."""
    before = result(*(step(1.0, seconds=1.0) for _ in range(3)))
    after = result(*(step(1.0, seconds=3.0) for _ in range(3)))
    between = result(*(step(1.0, seconds=2.0) for _ in range(3)))
    assert time_ratio(between, before, after) == pytest.approx(1.0)
    assert time_ratio(between, before, FAILED) == pytest.approx(2.0)
    assert time_ratio(FAILED, before, None) is None
    assert time_ratio(result(step(1.0)), before, None) is None


def test_the_figures_of_a_trial() -> None:
    """The highest peak, the median without the first call; None where not known."""
    seconds, peaks = (9.0, 0.1, 0.3, 0.2), (1, 400, 200, 300)
    one = result(
        *(step(1.0, seconds=s, peak=p) for s, p in zip(seconds, peaks, strict=True))
    )
    assert one.peak_bytes == 400
    assert one.step_seconds == pytest.approx(0.2)
    assert FAILED.peak_bytes is FAILED.step_seconds is None
    assert result(step(1.0, peak=None)).peak_bytes is None
    assert result(step(1.0)).step_seconds is None
    assert is_tight(one, 420)
    assert not is_tight(one, 500)
    assert not is_tight(one, None)
    assert not is_tight(FAILED, 1)
    assert asked(SLICED, AlternativeAxis.SLICES) == "4"
    assert asked(SLICED, AlternativeAxis.JIT) is None


def peaking(*peaks: int | None, combination: Combination = SLICED) -> TrialResult:
    """A trial whose steps needed so much, with 10 in use between them."""
    return result(*(step(1.0, peak=peak) for peak in peaks), combination=combination)


def test_slices_are_judged_by_the_arithmetic_of_a_run() -> None:
    """Of 900 the most seen was 880, as much again as that lies above the median is more
    than a run leaves itself: it would not choose them. Few steps say less than a dozen."""
    dozen = peaking(*[800] * 11, 880)
    assert may_need(dozen) == 960
    near = judged(dozen, 900)
    assert near.outcome is TrialOutcome.TOO_NEAR
    assert near.peak_bytes is None
    assert "may need 960 bytes (the most seen is 880 bytes)" in near.because
    assert judged(dozen, 980) == dozen
    assert may_need(peaking(*[800] * 11)) == 10 + int(1.4 * 790)


def test_what_is_not_known_or_not_of_slices_is_not_judged() -> None:
    """A whole batch has slices to fall back to; without figures or a limit, or outside of
    it, nothing is said."""
    whole = peaking(*[890] * 12, combination=())
    assert judged(whole, 900) == whole
    sliced = peaking(*[890] * 12)
    assert judged(sliced, 900).outcome is TrialOutcome.TOO_NEAR
    assert judged(sliced, None) == sliced
    free = replace(sliced, limited=False)
    assert judged(free, 900) == free
    unknown = peaking(None)
    assert judged(unknown, 900) == unknown
    assert judged(FAILED, 900) == FAILED
    assert may_need(replace(sliced, end=None)) is None


@pytest.mark.parametrize(
    ("untimed", "a_call", "expected"),
    [(0, 1, 2.0), (2, 1, 4.0), (3, 2, 4.0), (9, 1, None)],
)
def test_a_step_for_which_a_batch_was_read_ahead_says_nothing_of_the_time(
    untimed: int, a_call: int, expected: float | None
) -> None:
    """While the first call was traced, which no step of a long run waits for."""
    calls = [
        step(1.0, seconds=seconds * a_call, steps=a_call)
        for seconds in (9.0, 1.0, 2.0, 4.0)
    ]
    tried = replace(result(*calls), fit=replace(FIT, untimed=untimed))
    assert tried.step_seconds == expected
    assert time_ratio(tried, tried, None) == (None if expected is None else 1.0)


def test_in_how_many_slices_a_run_goes_on_near_the_limit() -> None:
    """Those in which trials did; of what has room, or found none, there is nothing to say."""
    near = [
        TrialResult(outcome=TrialOutcome.TOO_NEAR, slices_made=made)
        for made in (16, 8, None)
    ]
    other = TrialResult(outcome=TrialOutcome.MEASURED, slices_made=64)
    assert goes_on_in([*near, other]) == (8, 16)
    assert goes_on_in([other, near[2]]) is None


def test_slices_that_took_no_less_memory_than_fewer() -> None:
    """One is the script as it is. What came near the limit counts as well, if it stayed at
    its number; a combination, and what was not measured, does not."""

    def sliced(slices: int, peak: int | None) -> TrialResult:
        steps = (step(1.0, peak=peak),)
        made = result(*steps, combination=(of_slices(slices),) if slices > 1 else ())
        return replace(made, slices_made=slices)

    near = replace(sliced(8, 118), outcome=TrialOutcome.TOO_NEAR)
    left = replace(near, slices_made=16)
    whole, two, four = sliced(1, 89), sliced(2, 60), sliced(4, 98)
    both = result(step(1.0, peak=200), combination=(*SLICED, *HALF))
    assert no_smaller([whole, near, four, two, both]) == [four, near]
    assert no_smaller([whole, left, sliced(4, None), two]) == []
    assert no_smaller([whole, sliced(2, 89)]) == [sliced(2, 89)]
