"""The trials that are still to come at most."""

import pytest

from supervisor.core.memory.alternatives import AlternativeAxis, of_slices
from supervisor.core.memory.best_combination import next_slices
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult
from supervisor.core.memory.trials_left import most_combinations, slices_left


def ended(slices: int, outcome: TrialOutcome) -> TrialResult:
    """A trial of so many."""
    return TrialResult(combination=(of_slices(slices),), outcome=outcome)


def made(batch: int, fitting: int) -> int:
    """How many are tried where so many slices, and all that are more, fit."""
    trials: list[TrialResult] = []
    while (following := next_slices(trials, batch=batch, fits=False)) is not None:
        fits = following >= fitting
        outcome = TrialOutcome.MEASURED if fits else TrialOutcome.TOO_NEAR
        trials.append(ended(following, outcome))
    return len(trials)


@pytest.mark.parametrize("batch", [1, 2, 10, 64, 128, 1000])
def test_never_more_slices_are_tried_than_were_counted(batch: int) -> None:
    """Whichever number is the first to fit; and one of them needs as many."""
    needed = [made(batch, fitting) for fitting in range(2, batch + 2)]
    assert slices_left([], batch=batch, fits=False) == max(needed)


def test_where_the_batch_fits_three_numbers_are_tried() -> None:
    """As far as it can be cut."""
    assert slices_left([], batch=64, fits=True) == 3
    assert slices_left([], batch=2, fits=True) == 1
    done = [ended(2, TrialOutcome.MEASURED), ended(4, TrialOutcome.NO_ROOM)]
    assert slices_left(done, batch=64, fits=True) == 1


def test_a_failure_of_slices_ends_them() -> None:
    """More would end alike."""
    assert slices_left([ended(2, TrialOutcome.FAILED)], batch=64, fits=False) == 0


def test_a_combination_needs_two_axes() -> None:
    """One has nothing to be combined with."""
    jit, slices = AlternativeAxis.JIT, AlternativeAxis.SLICES
    assert most_combinations(frozenset({jit}), 3) == 0
    assert most_combinations(frozenset({jit, slices}), 3) == 3
