"""The random states of TensorFlow and of Keras on it, taken and given back.

The private names that this leans on stand in the table of ``fit_compat``.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.random import seed_generator
from tensorflow.python.eager import context as eager_context

from trainers.backends.tensorflow.tensor_values import (
    assign_whole,
    framework_array,
    tensor_of,
)
from trainers.process.script import python_random

GLOBAL_SEED_GENERATOR = "global_seed_generator"
"""What Keras keeps it under; it has a constant for that from 3.13 on."""
OTHER_REPLICAS = (
    "Keras' global seed generator was made for other devices than now: what is drawn from"
    " it after a restart is not the same"
)
SEED_GENERATOR_LINE = "gen = global_state.get_global_attribute("


def global_seed() -> int | None:
    """TensorFlow's global seed; None if the script set none."""
    return eager_context.global_seed()


def eager_random() -> Any | None:
    """The ``random.Random`` that eager operation seeds are drawn from, if any."""
    return getattr(eager_context.context(), "_rng", None)


def keras_generator_variable() -> Any | None:
    """The variable of Keras' global seed generator; None if there is no generator."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return None if generator is None else tensor_of(generator.state)


def state() -> dict[str, Any]:
    """All that can be saved."""
    eager, generator = eager_random(), keras_generator_variable()
    return {
        "eager": None if eager is None else eager.getstate(),
        "keras": None if generator is None else np.array(framework_array(generator)),
    }


def put_back(state: dict[str, Any]) -> list[str]:
    """Give ``state`` back; a sentence for what does not fit."""
    if state["keras"] is None:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
    else:
        found = seed_generator.global_seed_generator().state
        if np.array(framework_array(found)).shape != state["keras"].shape:
            return [OTHER_REPLICAS]
        assign_whole(found, state["keras"])
    eager = eager_random()
    if (eager is None) != (state["eager"] is None):
        return ["TensorFlow's global seed was set before and is not now, or vice versa"]
    if eager is not None:
        eager.setstate(state["eager"])
    return []


@contextlib.contextmanager
def generator_made_whole() -> Iterator[None]:
    """Leave Keras no global seed generator of a trace that fails: TensorFlow gives the
    variables of a trace their values at its end, so that this one would have none."""
    before = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    try:
        yield
    except BaseException:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, before)
        raise


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Put the random states of Python, NumPy, TensorFlow and Keras back at the end."""
    before = state()
    try:
        with python_random.untouched():
            yield
    finally:
        put_back(before)
