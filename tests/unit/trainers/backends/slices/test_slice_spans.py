"""How slices make up a whole."""

import numpy as np
import pytest

from trainers.backends.slices import slice_spans
from trainers.backends.slices.slice_loss import LossRule

SPANS = slice_spans.spans_of(12)
VALUES = np.arange(1.0, 13.0)


def rule(values: np.ndarray, reduced: str) -> LossRule | None:
    """What is found of a reduction over samples."""
    reduce = getattr(np, reduced)
    several = [reduce(values[start:stop]) for start, stop in SPANS]
    return slice_spans.rule_of(reduce(values), several, SPANS, 1e-5)


@pytest.mark.parametrize(
    ("reduced", "expected"),
    [("mean", LossRule.MEAN), ("sum", LossRule.SUM), ("max", LossRule.WHOLE)],
)
def test_a_reduction_is_known_by_its_slices(reduced: str, expected: LossRule) -> None:
    """Means are weighted by the sizes of the slices."""
    assert rule(VALUES, reduced) is expected


@pytest.mark.parametrize("values", [0 * VALUES, np.nan * VALUES, np.inf * VALUES])
def test_from_zeros_and_from_no_numbers_nothing_is_known(values: np.ndarray) -> None:
    """A sum of zeros looks like a mean of zeros."""
    assert rule(values, "sum") is None


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([None, LossRule.SUM], LossRule.SUM),
        ([LossRule.MEAN, LossRule.MEAN], LossRule.MEAN),
        ([LossRule.MEAN, LossRule.SUM], LossRule.WHOLE),
        ([None, None], None),
    ],
)
def test_trials_have_to_agree(
    trials: list[LossRule | None], expected: LossRule | None
) -> None:
    """One that could not tell has no say."""
    assert slice_spans.agreed(trials) is expected


def test_an_added_loss_of_which_nothing_is_known_is_told() -> None:
    """Not one of a weight's regulariser, which is the same for each slice."""
    known = [None, LossRule.SUM, LossRule.WHOLE, None]
    rules, told = slice_spans.added_rules(known, by_weights=1)
    assert rules == (LossRule.MEAN, LossRule.SUM, LossRule.MEAN, LossRule.MEAN)
    unknown, averaged = told
    assert unknown.startswith("added loss 1 of 4")
    assert "nobody knows" in unknown
    assert averaged.startswith("added loss 3 of 4")


def test_zeroed_labels_are_left_in_part() -> None:
    """Of a sample with several labels some stay: a loss may divide by what is left."""
    zeroed = np.asarray(slice_spans.some_zero(np.ones((8, 4))))
    assert zeroed.sum(axis=1).tolist() == [2, 2, 4, 4, 4, 4, 4, 4]
    alone = np.asarray(slice_spans.some_zero(np.ones((8,), "int32")))
    assert alone.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]


def test_what_takes_the_place_of_zeros_has_both_signs() -> None:
    """So that no activation hides all of it."""
    numbers = slice_spans.unlike_zero((3, 4))
    assert numbers.all()
    assert numbers.min() < 0 < numbers.max()
    assert slice_spans.unlike_zero(()) > 0
