"""The trials that are still to come at most: which slices are tried depends on what fits."""

from collections.abc import Sequence

from supervisor.core.memory.alternatives import AlternativeAxis, of_slices
from supervisor.core.memory.best_combination import next_slices
from supervisor.core.memory.trial_results import TrialOutcome, TrialResult

_ENDS = (TrialOutcome.MEASURED, TrialOutcome.NO_ROOM)
"""Of a trial of slices, by which it is decided what is tried next; any other ends it."""


def slices_left(trials: Sequence[TrialResult], *, batch: int, fits: bool) -> int:
    """How many numbers of slices are tried at most after ``trials``, whatever comes of each.

    ``batch``, ``fits``: as in ``next_slices``.
    """
    following = next_slices(trials, batch=batch, fits=fits)
    if following is None:
        return 0
    combination = (of_slices(following),)
    ends = _ENDS[:1] if fits else _ENDS  # where the batch fits, all are tried
    return 1 + max(
        slices_left(
            [*trials, TrialResult(combination=combination, outcome=end)],
            batch=batch,
            fits=fits,
        )
        for end in ends
    )


def most_combinations(only: frozenset[AlternativeAxis], at_most: int) -> int:
    """How many combinations are tried at most, of alternatives of these axes: a combination
    has parts of two or more."""
    return at_most if len(only) > 1 else 0
