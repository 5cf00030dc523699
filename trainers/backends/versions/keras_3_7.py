"""Keras 3.7 to 3.10: a step is handed out with its first number alone."""

from typing import Any

from trainers.backends.versions.keras_3_11 import LOOP, NAMES, STEPS, epoch, keras_own

STEPS_OF_FIT = "for step, iterator in epoch_iterator:"


def handed(step: int, _chunk: int, batches: Any) -> Any:
    """What ``fit`` is given for the steps that begin with ``step``."""
    return step, batches


__all__ = ["LOOP", "NAMES", "STEPS", "epoch", "keras_own"]
