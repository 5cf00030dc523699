"""What the train step changes and no snapshot holds: told, as nobody would notice."""

from typing import Any

from trainers.backends.tensorflow import fit_compat as seams
from trainers.backends.tensorflow import tensor_values, tracing

tf = seams.tf

UNSAVED = (
    "the train step changes variables ({}) that belong neither to the model nor to its"
    " layers or optimizers, but to the script alone, say: they are not saved, and begin"
    " anew after a restart (make them attributes of the model)"
)


def why_not_exact(model: Any) -> str | None:
    """Why a restart would not have the whole state, in a sentence; None if it has.

    Known once the train function is traced.
    """
    count = len(_changed(model) - _held(model))
    return UNSAVED.format(count) if count else None


def _held(model: Any) -> set[int]:
    """The handles of the variables that are saved."""
    saved = [tensor_values.tensor_of(variable) for _, variable in seams.listed(model)]
    shared = tensor_values.keras_generator_variable()
    return {id(one.handle) for one in [*saved, *shared] if hasattr(one, "handle")}


def _changed(model: Any) -> set[int]:
    """The handles of the variables that the traced train function writes to."""
    found: set[int] = set()
    for graph in tracing.traced_graphs(model):
        read_only = {id(graph.inputs[n]) for n in tracing.read_only_inputs(graph)}
        found |= {
            id(handle)
            for handle, placeholder in graph.captures
            if _is_variable(handle) and id(placeholder) not in read_only
        }
    return found


def _is_variable(handle: Any) -> bool:
    """Whether ``handle`` is a variable's: tables and iterators hold other things."""
    if handle.dtype != tf.resource:
        return False
    data = getattr(handle, "_handle_data", None)
    return data is not None and data.is_set and len(data.shape_and_type) == 1
