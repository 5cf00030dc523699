"""The random states of Keras on PyTorch, and of PyTorch, taken and given back.

TensorFlow's, where the script uses it for its data, is that of ``tf_data``.
"""

from typing import Any

import numpy as np
import torch
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from trainers.backends import tf_data
from trainers.backends.torch import torch_values

GLOBAL_SEED_GENERATOR = "global_seed_generator"
"""What Keras keeps it under."""
DEVICES = (
    "PyTorch sees {} GPUs and saw {}: their random generators are not what they were"
)

THREADS = "PyTorch computes with {} threads and did with {}: sums may be added in another order"


def global_seed() -> int | None:
    """Nothing of ours depends on one: data come in the order that PyTorch draws."""
    return None


def state() -> dict[str, Any]:
    """All that can be saved."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return {
        "eager": tf_data.eager_state(),
        "torch": torch.get_rng_state().numpy(),
        "threads": torch.get_num_threads(),
        "devices": [one.numpy() for one in _of_devices()],
        "keras": None
        if generator is None
        else torch_values.framework_array(generator.state),
    }


def _of_devices() -> list[Any]:
    """None of a GPU that was never used: asking would begin to use it."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def put_back(state: dict[str, Any]) -> list[str]:
    """Give ``state`` back; a sentence for what does not fit."""
    if state["keras"] is None:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
    else:
        torch_values.assign(
            seed_generator.global_seed_generator().state, state["keras"]
        )
    torch.set_rng_state(_generator_state(state["torch"]))
    told = []
    if devices := state["devices"]:
        if torch.cuda.device_count() == len(devices):
            torch.cuda.set_rng_state_all([_generator_state(one) for one in devices])
        else:
            told.append(DEVICES.format(torch.cuda.device_count(), len(devices)))
    if torch.get_num_threads() != state["threads"]:
        told.append(THREADS.format(torch.get_num_threads(), state["threads"]))
    if not tf_data.put_eager_state_back(state["eager"]):
        told.append("TensorFlow's global seed was set before and is not now")
    return told


def _generator_state(array: np.ndarray) -> Any:
    return torch.from_numpy(np.array(array))
