"""Recomputation of activations: Keras' own ``remat``, for layers that may be called twice.

``keras.RematScope`` marks what is made inside it, and a script has to be changed for it.
The mark (``Layer._remat_mode``) is read at each call, so setting it before the train
function is traced does the same. Whole models are not marked, only the layers in them: a
model that is computed again as one keeps just as much at once.

A layer is called again in the backward pass. One whose state changes with a call (moving
averages of a BatchNormalization, the generator of a Dropout) would change it twice, and
draw another mask than the forward pass had: such layers are left out.
"""

from typing import Any

import keras

FULL = "full"


def supported() -> bool:
    """Whether this version of Keras has it."""
    return hasattr(keras, "RematScope") and hasattr(keras, "remat")


def recompute(model: Any) -> tuple[int, int]:
    """Mark the layers of ``model``: how many are computed again, and how many that compute
    something are left out. Those that the script has marked itself stay as they are."""
    from keras.src.backend.common.remat import RematMode  # noqa: PLC0415  # none before 3.9

    marked = left_out = 0
    for layer in _innermost(model):
        if layer._remat_mode is not None:
            continue
        if _keeps_state(layer):
            left_out += 1
            continue
        layer._remat_mode = RematMode(FULL, 1024, [])
        marked += 1
    return marked, left_out


def _innermost(model: Any) -> list[Any]:
    """The layers that hold no others, and are no mere inputs."""
    return [
        layer
        for layer in model._flatten_layers(include_self=False)
        if not isinstance(layer, (keras.layers.InputLayer, keras.Model))
        and next(iter(layer._flatten_layers(include_self=False)), None) is None
    ]


def _keeps_state(layer: Any) -> bool:
    """Whether a call in training changes anything in it."""
    seeds = getattr(layer, "_seed_generators", [])
    held = [one for one in vars(layer).values() if _is_generator(one)]
    return bool(layer.non_trainable_variables or seeds or held)


def _is_generator(value: Any) -> bool:
    return isinstance(value, keras.random.SeedGenerator)
