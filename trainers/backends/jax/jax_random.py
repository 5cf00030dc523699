"""The random states of Keras on JAX, taken and given back.

JAX itself has none: its keys are values. TensorFlow's, where the script uses it for its
data, is that of ``tf_data``.
"""

from typing import Any

from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from trainers.backends import tf_data
from trainers.backends.jax import jax_values

GLOBAL_SEED_GENERATOR = "global_seed_generator"
"""What Keras keeps it under."""


def global_seed() -> int | None:
    """Nothing of ours depends on one: arrays come in the order that Keras draws."""
    return None


def state() -> dict[str, Any]:
    """All that can be saved."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return {
        "eager": tf_data.eager_state(),
        "keras": None
        if generator is None
        else jax_values.framework_array(generator.state),
    }


def put_back(state: dict[str, Any]) -> list[str]:
    """Give ``state`` back; a sentence for what does not fit."""
    if state["keras"] is None:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
    else:
        jax_values.assign(seed_generator.global_seed_generator().state, state["keras"])
    if not tf_data.put_eager_state_back(state["eager"]):
        return ["TensorFlow's global seed was set before and is not now"]
    return []
