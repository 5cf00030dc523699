"""What the train step changes and no snapshot holds: told, as nobody would notice."""

from typing import Any

from trainers.backends.tensorflow import fit_compat as seams
from trainers.backends.tensorflow import random_state, tensor_values, tracing

UNSAVED = (
    "the train step changes variables ({}) that belong neither to the model nor to its"
    " layers or optimizers, but to the script alone, say: they are not saved, and begin"
    " anew after a restart (make them attributes of the model)"
)


def why_not_exact(model: Any) -> str | None:
    """Why a restart would not have the whole state, in a sentence; None if it has.

    Known once the train function is traced.
    """
    count = len(tracing.changed_handles(model) - _held(model))
    return UNSAVED.format(count) if count else None


def _held(model: Any) -> set[int]:
    """The handles of the variables that are saved."""
    saved = [tensor_values.tensor_of(variable) for _, variable in seams.listed(model)]
    shared = random_state.keras_generator_variable()
    return {id(one.handle) for one in [*saved, *shared] if hasattr(one, "handle")}
