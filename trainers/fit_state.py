"""Everything that decides the rest of a run, taken and given back.

JSON and tensors: variables, callbacks, random states, what ``fit`` keeps in local
variables (the last batch logs: without them an epoch resumed at its end has no loss).
"""

import functools
import os
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from trainers import decode, encode, fit_callbacks, model_description
from trainers import seams_fit as seams
from trainers.tensors import DTYPES, Tensor


class MismatchError(Exception):
    """The model is not the one the snapshot was taken of; the text says where."""


@functools.cache
def _name_of(dtype: Any) -> str:
    """NumPy's name of TensorFlow's ``dtype``: asked for at each snapshot."""
    return np.dtype(dtype.as_numpy_dtype).name


class _Storable(NamedTuple):
    """A variable that can be stored."""

    name: str
    variable: Any
    dtype: str
    """NumPy's name of it."""


def _storable(model: Any) -> tuple[list[_Storable], list[str]]:
    """The variables that can be stored, and a sentence for each that cannot."""
    found = [
        _Storable(name, variable, _name_of(seams.tensor_of(variable).dtype))
        for name, variable in seams.variables(model)
    ]
    told = [
        f"the variable {one.name} has the type {one.dtype}, which is not saved"
        for one in found
        if one.dtype not in DTYPES
    ]
    return [one for one in found if one.dtype in DTYPES] if told else found, told


def _variable_tensors(storable: list[_Storable]) -> list[Tensor]:
    return [
        Tensor(
            f"variable/{index:05d}",
            one.dtype,
            tuple(seams.tensor_of(one.variable).shape),
            one.variable,
            seams.arrays_of,
        )
        for index, one in enumerate(storable)
    ]


def _random_state() -> dict[str, Any]:
    eager = seams.eager_random()
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002  # the global one
        "eager": None if eager is None else eager.getstate(),
        "keras": seams.keras_generator_state(),
        "hash_seed": os.environ.get("PYTHONHASHSEED"),
    }


def _set_random_state(state: Mapping[str, Any]) -> list[str]:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002  # the global state
    seams.set_keras_generator_state(state["keras"])
    eager = seams.eager_random()
    if (eager is None) != (state["eager"] is None):
        return ["TensorFlow's global seed was set before and is not now, or vice versa"]
    if eager is not None:
        eager.setstate(state["eager"])
    if state["hash_seed"] != os.environ.get("PYTHONHASHSEED"):
        return ["PYTHONHASHSEED is another: sets of strings may come in another order"]
    return []


def capture(
    model: Any, callbacks: list[Any], local: dict[str, Any]
) -> tuple[dict[str, Any], list[Tensor], list[str]]:
    """The state as JSON, its tensors (read when copied), and what is not in it.

    ``local``: what ``fit`` itself knows (position, last logs).
    """
    storable, missing = _storable(model)
    states, callback_tensors, told = fit_callbacks.encode_all(callbacks)
    encoder = encode.Encoder("other/", array_of=seams.framework_array)
    state = {
        "variables": [one.name for one in storable],
        "callbacks": states,
        "random": encoder.encode(_random_state()),
        "stop_training": bool(model.stop_training),
        "local": encoder.encode(local),
    }
    tensors = [
        *_variable_tensors(storable),
        *model_description.tensors_of(model),
        *callback_tensors,
        *encoder.tensors,
    ]
    return state, tensors, missing + told


def local_of(state: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> Any:
    """What ``fit`` itself knew."""
    decoder = decode.Decoder(stored, assign=seams.framework_value)
    return decoder.decode(state["local"])


def restore(
    model: Any,
    callbacks: list[Any],
    state: Mapping[str, Any],
    stored: Mapping[str, np.ndarray],
) -> list[str]:
    """Give everything back, random states last; returns sentences worth telling.

    Raises:
        MismatchError: the model has other variables. Nothing was changed then.
    """
    _restore_variables(model, state["variables"], stored)
    told = fit_callbacks.decode_all(callbacks, state["callbacks"], stored)
    model.stop_training = state["stop_training"]
    decoder = decode.Decoder(stored, assign=seams.framework_value)
    return told + _set_random_state(decoder.decode(state["random"]))


def _restore_variables(
    model: Any, names: list[str], stored: Mapping[str, np.ndarray]
) -> None:
    storable, _ = _storable(model)
    present = [(one.name, one.variable) for one in storable]
    by_name = dict(present)
    if len(by_name) == len(present) and set(by_name) == set(names):
        present = [(name, by_name[name]) for name in names]
    if len(present) != len(names):
        message = f"it has {len(present)} variables, the snapshot {len(names)}"
        raise MismatchError(message)
    arrays = [stored[f"variable/{index:05d}"] for index in range(len(names))]
    for (name, variable), array in zip(present, arrays, strict=True):
        shape = tuple(seams.tensor_of(variable).shape)
        if shape != array.shape:
            message = f"{name} has the shape {shape}, in the snapshot {array.shape}"
            raise MismatchError(message)
    for (_, variable), array in zip(present, arrays, strict=True):
        seams.assign(variable, array)
