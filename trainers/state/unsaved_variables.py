"""What the train step changes and no snapshot holds: told, as nobody would notice."""

from typing import Any

from trainers.backends.selected import backend

UNSAVED = (
    "the train step changes variables ({}) that belong neither to the model nor to its"
    " layers or optimizers, but to the script alone, say: they are not saved, and begin"
    " anew after a restart (make them attributes of the model)"
)


def why_not_exact(model: Any) -> str | None:
    """Why a restart would not have the whole state, in a sentence; None if it has.

    Known once the train function is traced.
    """
    saved = [variable for _, variable in backend.variables.listed(model)]
    count = backend.traces.changed_beside(model, saved)
    return UNSAVED.format(count) if count else None
