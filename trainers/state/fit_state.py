"""The whole state of a ``fit``, all that decides the rest of a run: captured, restored.

JSON and tensors: variables, callbacks, random states, what ``fit`` keeps in local
variables (the last batch logs: without them an epoch resumed at its end has no loss).
"""

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from trainers.backends.selected import backend
from trainers.process.script import python_random
from trainers.snapshots import model_description
from trainers.snapshots.tensor_image import Tensor
from trainers.state import callback_state, decode, encode, model_build, variable_state
from trainers.state.hidden.hidden_state import KEY, HiddenState

OTHER_REPLICAS = (
    "it is trained on {} devices at once, and was on {}, each of which has a state of its"
    " own; give it as many as before (--fresh begins anew)"
)
TOLD_APART = "told_apart"
"""Key of a state that tells which names stand for one thing."""


class StateMismatchError(Exception):
    """The model is not the one the snapshot was taken of; the text says where."""


def _random_state(of_data: python_random.State | None) -> dict[str, Any]:
    return {
        **python_random.state(),
        **backend.random.state(),
        **(of_data or {}),
        "hash_seed": os.environ.get("PYTHONHASHSEED"),
    }


SHARED = (
    "the data change what callbacks or functions of the script have, too, as they are asked"
    " for batches, which happens ahead of training: after a restart it may differ"
)


def _set_random_state(state: dict[str, Any]) -> list[str]:
    # Keras' global generator, where it is made for this, draws its seed from Python's.
    told = backend.random.put_back(state)
    python_random.put_back(state)
    if not told and state["hash_seed"] != os.environ.get("PYTHONHASHSEED"):
        return ["PYTHONHASHSEED is another: sets of strings may come in another order"]
    return told


def capture(
    model: Any,
    callbacks: list[Any],
    local: dict[str, Any],
    *,
    of_data: python_random.State | None = None,
    apart: Collection[Any] = (),
    hidden: HiddenState | None = None,
) -> tuple[dict[str, Any], list[Tensor], list[str]]:
    """The state as JSON, its tensors (read when copied), and what is not in it.

    ``local``: what ``fit`` itself knows (position, last logs). ``of_data``: the global
    generators as they belong to this step, where data drew from them ahead of it.
    ``apart``: what data that are asked ahead of it change; they save it themselves.
    ``hidden``: what else training changes, where that is followed.
    """
    variables, missing = variable_state.storable(model)
    named = {} if hidden is None else hidden.named()
    places = variable_state.Places([one for _, one in variables], named)
    met = encode.Met()
    states, callback_tensors, told = callback_state.encode_all(callbacks, places, met)
    encoder = encode.StateEncoder(
        "other/",
        array_of=backend.values.framework_array,
        kind_of=backend.values.kind_of,
    )
    state = {
        "variables": [one.name for one, _ in variables],
        "replicas": backend.fit.replicas_of(model),
        "device": backend.fit.computing_device().to_json(),
        "callbacks": states,
        "random": encoder.encode(_random_state(of_data)),
        "stop_training": bool(model.stop_training),
        "local": encoder.encode(local),
        TOLD_APART: True,
    }
    tensors = [
        *variable_state.tensors_of(variables),
        *model_description.tensors_of(model),
        *callback_tensors,
        *encoder.tensors,
    ]
    if hidden is None:
        met.join({})
    else:
        state[KEY], more, changed = hidden.capture(places, met)
        tensors, told = tensors + more, told + changed
    if any(one in met for one in apart):
        told.append(SHARED)
    return state, tensors, missing + told


def local_of(state: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> Any:
    """What ``fit`` itself knew."""
    decoder = _decoder_of_others(state, stored)
    return decoder.decode(state["local"])


def _decoder_of_others(
    state: Mapping[str, Any], stored: Mapping[str, np.ndarray]
) -> decode.StateDecoder:
    return decode.StateDecoder(
        stored,
        assign=backend.values.framework_value,
        whole=[state["random"], state["local"]],
    )


def build(
    model: Any,
    element_spec: Any,
    state: Mapping[str, Any],
    stored: Mapping[str, np.ndarray],
) -> None:
    """Make the variables that ``restore`` gives values to, where the model lacks them.

    Raises:
        StateMismatchError: they cannot be made without a step.
    """
    try:
        model_build.build(
            model, element_spec, whole=lambda: is_whole(model, state, stored)
        )
    except model_build.UnbuildableError as error:
        message = f"its variables cannot be made without running a step: {error}"
        raise StateMismatchError(message) from error


def restore(
    model: Any,
    callbacks: list[Any],
    state: Mapping[str, Any],
    stored: Mapping[str, np.ndarray],
    *,
    hidden: HiddenState | None = None,
) -> list[str]:
    """Give everything back, random states last; returns a sentence for what is not as
    it was.

    Raises:
        StateMismatchError: the model has other variables. Nothing was changed then.
    """
    now, then = backend.fit.replicas_of(model), state.get("replicas", 1)
    if now != then:
        raise StateMismatchError(OTHER_REPLICAS.format(now, then))
    pairs = _paired(model, state["variables"], stored)
    lost = variable_state.lost(model)
    if lost is not None:
        raise StateMismatchError(lost)
    for variable, array in pairs:
        backend.values.assign(variable, array)
    places = variable_state.Places(
        [variable for variable, _ in pairs],
        {} if hidden is None else hidden.named(),
        moved=(state.get(KEY) or {}).get("moved", ()),
    )
    made = decode.Made(told_apart=state.get(TOLD_APART, False))
    if hidden is not None:
        hidden.keep_places(state, made)
    told = callback_state.decode_all(
        callbacks, state["callbacks"], stored, places, made
    )
    if hidden is not None:
        told += hidden.restore(state, stored, places, made)
    model.stop_training = state["stop_training"]
    decoder = _decoder_of_others(state, stored)
    return told + _set_random_state(decoder.decode(state["random"]))


@contextlib.contextmanager
def untouched(model: Any, hidden: HiddenState) -> Iterator[None]:
    """What happens within changes neither random states nor what ``hidden`` follows, as far
    as that has changed since ``fit`` began."""
    variables = [variable for _, variable in variable_state.storable(model)[0]]
    places = variable_state.Places(variables, hidden.named())
    kept, tensors, _ = hidden.capture(places)
    stored = {one.name: np.array(one.read()) for one in tensors}
    random = _random_state(None)
    yield
    places = variable_state.Places(
        variables, hidden.named(), moved=kept.get("moved", ())
    )
    hidden.restore({KEY: kept}, stored, places)
    _set_random_state(random)


def put_variables_back(
    model: Any, state: Mapping[str, Any], stored: Mapping[str, np.ndarray]
) -> None:
    """Give the model's variables their values, and nothing else: what looks at the model
    before ``restore`` must not find what a failed step left of it.

    Raises:
        StateMismatchError: as ``restore``.
    """
    for variable, array in _paired(model, state["variables"], stored):
        backend.values.assign(variable, array)


def is_whole(
    model: Any, state: Mapping[str, Any], stored: Mapping[str, np.ndarray]
) -> bool:
    """Whether the model has all the variables that a snapshot gives back."""
    try:
        _paired(model, state["variables"], stored)
    except StateMismatchError:
        return False
    return True


def _paired(
    model: Any, names: list[str], stored: Mapping[str, np.ndarray]
) -> list[tuple[Any, np.ndarray]]:
    """The model's variables, each with its value in the snapshot."""
    present, _ = variable_state.storable(model)
    by_name = {one.name: (one, variable) for one, variable in present}
    if len(by_name) == len(present) and set(by_name) == set(names):
        present = [by_name[name] for name in names]
    if len(present) != len(names):
        message = f"it has {len(present)} variables, the snapshot {len(names)}"
        raise StateMismatchError(message)
    arrays = [stored[variable_state.tensor_name(index)] for index in range(len(names))]
    for (one, _), array in zip(present, arrays, strict=True):
        if one.shape != array.shape:
            message = (
                f"{one.name} has the shape {one.shape}, in the snapshot {array.shape}"
            )
            raise StateMismatchError(message)
    return [
        (variable, one.value(array))
        for (one, variable), array in zip(present, arrays, strict=True)
    ]
