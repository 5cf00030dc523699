"""What is there between two steps: a model's variables by what they are, and the data."""

import gc
import math
from typing import Any

import keras
import numpy as np

from supervisor.wire.records.estimate_records import ModelMemory
from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.estimate.seen_data import SeenData


def of(model: Any, seen: SeenData, *, before: int | None) -> ModelMemory:
    """The memory of ``model``, whose variables are all made.

    ``before``: bytes in use before the data were iterated, as ``seen`` tells.
    """
    groups: dict[str, list[Any]] = {}
    for group, variable in backend.variables.listed(model):
        groups.setdefault(group, []).append(variable)
    own = groups.pop("model", [])
    optimizer = groups.pop("optimizer", [])
    trained = _trained(model, own)
    gc.collect()
    held = backend.trials.in_use()
    in_all = _bytes(own) + _bytes(optimizer)
    other = sum(_bytes(rest) for rest in groups.values())
    drawn = seen.nbytes
    if seen.most_in_use is not None and before is not None:
        drawn = max(seen.most_in_use - before, drawn)
    return ModelMemory(
        batch=seen.samples,
        batch_bytes=seen.nbytes,
        parameters=sum(map(_numbers, own)),
        trained=sum(map(_numbers, trained)),
        parameter_bytes=_bytes(own),
        trained_bytes=_bytes(trained),
        optimizer_bytes=_bytes(optimizer),
        optimizer=_optimizer_of(model),
        other_bytes=other,
        data_bytes=max((held or 0) - in_all - other, seen.array_bytes),
        drawn_bytes=drawn,
        jit=bool(model.jit_compile),
        jit_possible=keras_compat.may_be_compiled(model),
        backend=keras.backend.backend(),
        shapes=seen.shapes,
    )


def _optimizer_of(model: Any) -> str:
    """Its class; of a step of the script's own nobody knows which it takes."""
    found = getattr(model, "optimizer", None)
    own = backend.fit.has_own_train_step(model)
    return "" if found is None or own else type(found).__name__


def _trained(model: Any, own: list[Any]) -> list[Any]:
    """Those of ``own`` that training changes."""
    tensor_of = backend.values.tensor_of
    wanted = {id(tensor_of(one)) for one in model.trainable_variables}
    return [one for one in own if id(tensor_of(one)) in wanted]


def _bytes(variables: list[Any]) -> int:
    return sum(
        _numbers(one) * _item_bytes(backend.values.dtype_of(one)) for one in variables
    )


def _numbers(variable: Any) -> int:
    return math.prod(backend.values.shape_of(variable) or ())


def _item_bytes(dtype: str) -> int:
    try:
        return np.dtype(dtype).itemsize
    except TypeError:  # bfloat16 and float8 are none of NumPy's own
        digits = "".join(c for c in dtype.split("_", maxsplit=1)[0] if c.isdigit())
        return max(int(digits or 8) // 8, 1)
