"""The variables of a model by what they are, in numbers and bytes: nothing is computed."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainers.backends.selected import backend


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedVariables:
    """Of one model, bytes where nothing else is said."""

    parameters: int
    """Numbers, those among them that are not trained included."""
    trained: int
    """Of these, those that are."""
    parameter_bytes: int
    trained_bytes: int
    largest_bytes: int
    """Of the largest that is trained."""
    optimizer_bytes: int
    """Of the variables that are made so far, of all optimizers."""
    other_bytes: int
    """Metrics, random generators and what else the model keeps."""


def counted(model: Any) -> CountedVariables:
    """Those that ``model`` has now: an optimizer makes most of its own in the first step."""
    groups: dict[str, list[Any]] = {}
    for group, variable in backend.variables.listed(model):
        groups.setdefault(group, []).append(variable)
    own, optimizer = groups.pop("model", []), groups.pop("optimizer", [])
    trained = _trained(model, own)
    return CountedVariables(
        parameters=sum(map(_numbers, own)),
        trained=sum(map(_numbers, trained)),
        parameter_bytes=sum(map(_bytes, own)),
        trained_bytes=sum(map(_bytes, trained)),
        largest_bytes=max(map(_bytes, trained), default=0),
        optimizer_bytes=sum(map(_bytes, optimizer)),
        other_bytes=sum(_bytes(one) for rest in groups.values() for one in rest),
    )


def optimizer_of(model: Any) -> str:
    """Its class; of a step of the script's own nobody knows which it takes."""
    found = getattr(model, "optimizer", None)
    own = backend.fit.has_own_train_step(model)
    return "" if found is None or own else type(found).__name__


def _trained(model: Any, own: list[Any]) -> list[Any]:
    """Those of ``own`` that training changes."""
    tensor_of = backend.values.tensor_of
    wanted = {id(tensor_of(one)) for one in model.trainable_variables}
    return [one for one in own if id(tensor_of(one)) in wanted]


def _bytes(variable: Any) -> int:
    return _numbers(variable) * _item_bytes(backend.values.dtype_of(variable))


def _numbers(variable: Any) -> int:
    return math.prod(backend.values.shape_of(variable) or ())


def _item_bytes(dtype: str) -> int:
    try:
        return np.dtype(dtype).itemsize
    except TypeError:  # bfloat16 and float8 are none of NumPy's own
        digits = "".join(c for c in dtype.split("_", maxsplit=1)[0] if c.isdigit())
        return max(int(digits or 8) // 8, 1)
