"""The variables of a model as tensors to store.

They are listed for each snapshot, but described (name, dtype, shape) only when the list
is another than the last time: it was a third of what a snapshot of 10 MB cost.
"""

import functools
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainers import seams_fit as seams
from trainers.tensors import DTYPES, Tensor


class Described(NamedTuple):
    """A variable that can be stored: what does not change while it exists."""

    name: str
    """For people, and to find it again in a model that was made anew."""
    tensor: str
    """Name of its tensor."""
    dtype: str
    """NumPy's name of it."""
    shape: tuple[int, ...]


class _Known(NamedTuple):
    """What was found in a model the last time, without keeping its variables alive."""

    variables: list["weakref.ref[Any]"]
    described: list[Described | None]
    """None: it cannot be stored."""
    told: list[str]

    def is_of(self, variables: list[Any]) -> bool:
        """Whether these are the same objects in the same order."""
        return len(variables) == len(self.variables) and all(
            known() is one for known, one in zip(self.variables, variables, strict=True)
        )


_known: "weakref.WeakKeyDictionary[Any, _Known]" = weakref.WeakKeyDictionary()


def storable(model: Any) -> tuple[list[tuple[Described, Any]], list[str]]:
    """The variables of ``model`` that can be stored, and a sentence for each other."""
    variables = [variable for _, variable in seams.listed(model)]
    known = _known.get(model)
    if known is None or not known.is_of(variables):
        known = _known[model] = _describe(model)
    pairs = zip(known.described, variables, strict=True)
    return [(one, variable) for one, variable in pairs if one is not None], known.told


class Places:
    """Which of the stored variables a value is: other state refers to them by place.

    What a callback had in a copy of its own would no longer be trained.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        """``variables``: in the order of their tensors."""
        self._variables = variables

    @functools.cached_property
    def _known(self) -> dict[int, list[Any]]:
        inner = {
            id(seams.tensor_of(one)): [index, True]
            for index, one in enumerate(self._variables)
        }
        return inner | {
            id(one): [index, False] for index, one in enumerate(self._variables)
        }

    def of(self, value: Any) -> list[Any] | None:
        """The number of ``value``, and whether it is the tf.Variable inside; or None."""
        return self._known.get(id(value))

    def variable_at(self, place: list[Any]) -> Any:
        """What ``of`` told the place of."""
        index, inner = place
        found = self._variables[index]
        return seams.tensor_of(found) if inner else found


def tensors_of(found: list[tuple[Described, Any]]) -> list[Tensor]:
    """Tensors to store, read when they are copied."""
    return [
        Tensor(one.tensor, one.dtype, one.shape, variable, seams.arrays_of)
        for one, variable in found
    ]


def tensor_name(index: int) -> str:
    """Name of the tensor of the variable that is stored as number ``index``."""
    return f"variable/{index:05d}"


@functools.cache
def _name_of(dtype: Any) -> str:
    return np.dtype(dtype.as_numpy_dtype).name


def _describe(model: Any) -> _Known:
    variables, described, told = [], [], []
    for name, variable in seams.variables(model):
        variables.append(weakref.ref(variable))
        inner = seams.tensor_of(variable)
        dtype, shape = _name_of(inner.dtype), inner.shape
        one = None
        if dtype not in DTYPES:
            told.append(f"the variable {name} has the type {dtype}, which is not saved")
        elif not shape.is_fully_defined():
            told.append(f"the variable {name} has no fixed shape, and is not saved")
        else:
            index = len(described) - described.count(None)
            one = Described(name, tensor_name(index), dtype, tuple(shape))
        described.append(one)
    return _Known(variables, described, told)
