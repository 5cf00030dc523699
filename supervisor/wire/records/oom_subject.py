"""The subject of an OOM: what memory was asked for, as both sides name it."""

import enum


class OomSubject(enum.StrEnum):
    """In a crash report, and in ``incidents --json``."""

    WEIGHTS = "weights"
    """Variables of the model were being made."""
    OPTIMIZER = "optimizer"
    """State of the optimizer was being made: moments, averages."""
    DATA = "data"
    """Arrays were being made tensors as a whole: a data set, not a batch."""
    STEP = "step"
    """A training step: what slices of the batch make smaller."""
    EVALUATION = "evaluation"
    """A step of the validation in a ``fit``: it is not sliced."""
    OWN_STEP = "own_step"
    """A step of a loop of the script's own (``GradientTape``, ``train_on_batch``): its
    batch is the script's, and nobody slices it."""
    OUTSIDE = "outside"
    """No training step: an evaluation, a prediction, code of the script's own."""
