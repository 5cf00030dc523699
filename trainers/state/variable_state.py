"""The variables of a model as tensors to store.

They are listed for each snapshot, but described (name, dtype, shape) only when the list
is another than the last time: it was a third of what a snapshot of 10 MB cost.
"""

import functools
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from trainers.backends.selected import backend
from trainers.snapshots.tensor_image import DTYPES, Tensor
from trainers.state.iterator_state import NoWayBackError

TRAINED = ("float", "bfloat", "complex")
"""How the names of types begin whose values can be trained."""
COMPLEX = "complex128"
"""Has no name in the format: stored as pairs of float64, real and imaginary part."""
NO_VARIABLE = (
    "it was the variable that training began with as {}, and there is none now"
)


class Described(NamedTuple):
    """A variable that can be stored: what does not change while it exists."""

    name: str
    """For people, and to find it again in a model that was made anew."""
    stored: Tensor
    """Its tensor, which finds the variable without keeping it alive."""
    in_pairs: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return self.stored.shape

    def value(self, array: np.ndarray) -> np.ndarray:
        """What the variable is given, of its tensor."""
        return array.view(COMPLEX)[..., 0] if self.in_pairs else array


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
    variables = [variable for _, variable in backend.variables.listed(model)]
    known = _of(model, variables)
    pairs = zip(known.described, variables, strict=True)
    return [(one, variable) for one, variable in pairs if one is not None], known.told


def lost(model: Any) -> str | None:
    """Which variable is trained and cannot be stored, in half a sentence, or None.

    A run that went on without it would train it from its beginning again.
    """
    listed = backend.variables.variables(model)
    known = _of(model, [variable for _, variable in listed])
    for (name, variable), one in zip(listed, known.described, strict=True):
        kind = backend.values.dtype_of(variable)
        trains = getattr(variable, "trainable", False)
        if one is None and trains and kind.startswith(TRAINED):
            return f"the variable {name} is trained and cannot be given back"
    return None


def _of(model: Any, variables: list[Any]) -> _Known:
    known = _known.get(model)
    if known is None or not known.is_of(variables):
        known = _known[model] = _describe(model)
    return known


class Places:
    """Which of the stored variables a value is: other state refers to them by place.

    What a callback had in a copy of its own would no longer be trained.
    """

    def __init__(
        self,
        variables: Sequence[Any],
        named: Mapping[str, Any] = MappingProxyType({}),
        *,
        moved: Iterable[str] = (),
    ) -> None:
        """``variables``: of the model, in the order of their tensors. ``named``: others that
        there were when training began, by the path that they had then. ``moved``: those of
        them that had other paths when the snapshot was taken that is given back."""
        self._variables, self._named = variables, named
        self._moved = frozenset(moved)

    @functools.cached_property
    def _known(self) -> dict[int, list[Any]]:
        held = [*self._named.items(), *enumerate(self._variables)]
        inner = {id(backend.values.tensor_of(one)): [at, True] for at, one in held}
        return inner | {id(one): [at, False] for at, one in held}

    def of(self, value: Any) -> list[Any] | None:
        """The number of ``value``, or its path, and whether it is the tf.Variable inside; or
        None."""
        return self.of_id(id(value))

    def of_id(self, number: int) -> list[Any] | None:
        """The same of what has this ``id``."""
        return self._known.get(number)

    def is_of_model(self, value: Any) -> bool:
        """Whether it is saved with the model."""
        place = self.of(value)
        return place is not None and isinstance(place[0], int)

    def is_taken(self, value: Any) -> bool:
        """Whether what was made in training is not this, wherever it stands now."""
        place = self.of(value)
        return place is not None and (
            isinstance(place[0], int) or place[0] in self._moved
        )

    def named(self) -> Mapping[str, Any]:
        """Those that it was given, by path."""
        return self._named

    def path_of(self, value: Any) -> str | None:
        """That of one that is ``named``."""
        place = self.of(value)
        return place[0] if place is not None and isinstance(place[0], str) else None

    def variable_at(self, place: list[Any]) -> Any:
        """What ``of`` told the place of. Raises NoWayBackError: there is none now."""
        index, inner = place
        if isinstance(index, str) and index not in self._named:
            raise NoWayBackError(NO_VARIABLE.format(index))
        found = self._named[index] if isinstance(index, str) else self._variables[index]
        return backend.values.tensor_of(found) if inner else found


def tensors_of(found: list[tuple[Described, Any]]) -> list[Tensor]:
    """Tensors to store, read when training stops for them.

    A value that was read lasts: TensorFlow changes no tensor. An update of the variable
    goes to new memory for as long as the old one is held.
    """
    return [one.stored for one, _ in found]


def _values_of(variables: Sequence["weakref.ref[Any]"]) -> list[Any]:
    return backend.values.values_of([known() for known in variables])


def _pairs_of(value: Any) -> np.ndarray:
    return backend.values.array_of_value(value)[..., None].view("float64")


def tensor_name(index: int) -> str:
    """Name of the tensor of the variable that is stored as number ``index``."""
    return f"variable/{index:05d}"


def _describe(model: Any) -> _Known:
    variables: list[weakref.ref[Any]] = []
    described: list[Described | None] = []
    told: list[str] = []
    for name, variable in backend.variables.variables(model):
        found = stored_as(name, variable, index=len(described) - len(told))
        if isinstance(found, str):
            told.append(found)
        variables.append(weakref.ref(variable))
        described.append(None if isinstance(found, str) else found)
    return _Known(variables, described, told)


def stored_as(name: str, variable: Any, *, index: int) -> Described | str:
    """As what it is stored, or why it cannot be."""
    dtype = backend.values.dtype_of(variable)
    shape = backend.values.shape_of(variable)
    if shape is None:
        return f"the variable {name} has no fixed shape, and is not saved"
    in_pairs = dtype == COMPLEX
    if not in_pairs and dtype not in DTYPES:
        return f"the variable {name} has the type {dtype}, which is not saved"
    stored = Tensor(
        tensor_name(index),
        "float64" if in_pairs else dtype,
        (*shape, 2) if in_pairs else shape,
        weakref.ref(variable),
        _values_of,
        lasting=True,
        array_of=_pairs_of if in_pairs else backend.values.array_of_value,
    )
    return Described(name, stored, in_pairs=in_pairs)
