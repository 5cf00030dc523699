# ruff: noqa: EM101, EM102, TRY003  # these exceptions are their sentences
"""The encoder of state: Python values as JSON and tensors, exactly; no pickle anywhere.

Plain JSON stands for itself; everything else is an object ``{"!": kind, …}``. What has
no kind here is not guessed at: ``UnencodableError`` names it.
"""

import base64
import collections
import enum
import math
import pathlib
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainers.snapshots import tensor_image
from trainers.state import array_views, iterator_state, object_state, pandas_state
from trainers.state.references import reference

KIND = "!"
"""The key that tells an encoded value from a dictionary."""
PART = "part"
"""Marks a dictionary of which only these entries are saved."""
LABEL = "is"
"""Of an encoded object that is met again: the name by which it is. A list has an object of
kind ``label`` before its items."""
CHANGEABLE = frozenset({
    "array", "counter", "default", "deque", "dict", "framework", "generator", "legacy",
    "mapped", "object", "ordered", "random", "set", "table",
})  # fmt: skip
"""Kinds, beside lists, of which it matters that two names stand for one."""
LEAST_ID = 1 << 32
"""No object lies below this address."""
_MOST_DEEP = 32
_MOST_MAPPED_BYTES = 256 << 20
"""Of an array in a file, which may be larger than memory."""


class UnencodableError(Exception):
    """A value of a type whose state cannot be saved; the text names the type."""


def type_name(value: Any) -> str:
    """``module.Name`` of the value's type."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def label_of(value: Any) -> str | None:
    """The label of an encoded value that is met again."""
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        return first["v"] if first.get(KIND) == "label" else None
    return value.get(LABEL) if isinstance(value, dict) and KIND in value else None


class Met:
    """What was encoded so far of all that can change: met again it is told as the same."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[Any, Any]] = {}
        """By ``id``: itself, so that no other gets it, and what it was encoded as."""
        self._labels: dict[int, str] = {}
        self._given = 0
        self._parts = array_views.Parts()
        self._apart: list[tuple[np.ndarray, np.ndarray, dict[str, Any]]] = []
        """Parts of larger arrays that are saved without them: the part, the whole, and as
        what the part was encoded."""

    def __len__(self) -> int:
        """So many, in the order in which they were met."""
        return len(self._nodes)

    def __contains__(self, value: Any) -> bool:
        """Whether it was met before."""
        return id(value) in self._nodes

    def values(self) -> list[Any]:
        """All that was met, in that order."""
        return [value for value, _ in self._nodes.values()]

    def again(self, value: Any) -> dict[str, Any] | None:
        """What stands for ``value``, if it was met before."""
        _, node = self._nodes.get(id(value), (None, None))
        if node is None:
            return None
        label = self._labels.get(id(value))
        if label is None:
            label = self._labels[id(value)] = str(self._given)
            self._given += 1
            if isinstance(node, list):
                node.insert(0, {KIND: "label", "v": label})
            else:
                node[LABEL] = label
        return {KIND: "same", "v": label}

    def add(self, value: Any, node: Any) -> None:
        """``value`` was encoded as ``node``."""
        if isinstance(node, list) or (
            isinstance(node, dict) and node.get(KIND) in CHANGEABLE
        ):
            self._nodes[id(value)] = value, node

    def needs_whole(self, part: np.ndarray, whole: np.ndarray) -> bool:
        """Whether ``part`` is saved with ``whole``, whose memory it lies in: that is not
        much larger, or saved already, or for another part."""
        if array_views.is_saved_with(part, whole) or whole in self:
            return True
        small = whole.nbytes <= array_views.SMALL_BYTES
        if small and self._parts.has_some_of(whole):
            return True
        return self._parts.add(part, whole)

    def is_apart(
        self, part: np.ndarray, whole: np.ndarray, node: dict[str, Any]
    ) -> None:
        """``part`` is encoded as ``node`` without ``whole``, which may be met yet."""
        self._apart.append((part, whole, node))

    def join(self, held: Mapping[int, Any]) -> None:
        """All was met: parts of what is saved, or of what ``held`` tells the place of by
        ``id`` as nothing has changed it, lie there."""
        for part, whole, node in self._apart:
            stands = self.again(whole)
            if stands is None and id(whole) in held:
                stands = {KIND: "held", "v": held[id(whole)]}
            if stands is not None:
                place = array_views.place_in(part, whole)
                node.update({KIND: "view", "v": stands, "in": place})

    def forget_since(self, count: int) -> None:
        """All but the first ``count``: what they were encoded as is not kept."""
        for number in list(self._nodes)[count:]:
            del self._nodes[number]
            self._labels.pop(number, None)


class StateEncoder:
    """Collects the tensors it meets under names that start with ``prefix``."""

    def __init__(
        self,
        prefix: str,
        *,
        array_of: Callable[[Any], Any],
        kind_of: Callable[[Any], str] = type_name,
        refers: Callable[[Any], bool] = lambda _value: False,
        place_of: Callable[[Any], Any] = lambda _value: None,
        place_of_id: Callable[[int], Any] = lambda _number: None,
        met: Met | None = None,
    ) -> None:
        """``array_of(value)``: the array of a framework's tensor or variable, or None.

        ``kind_of(value)``: what tells such a tensor from others when it is made again.
        ``refers(value)``: an object may refer to this, and it is no state of its own.
        ``place_of(value)``: where a variable of the model is found again, as JSON; None
        for any other value. A copy would no longer be trained.
        ``place_of_id(number)``: the same of what has this ``id``: scripts have dictionaries
        by it. These five are all that depends on the framework.
        ``met``: what others have encoded that is decoded by the same decoder.
        """
        self._prefix = prefix
        self._array_of, self._kind_of = array_of, kind_of
        self._refers = refers
        self._place_of = place_of
        self._place_of_id = place_of_id
        self.met = Met() if met is None else met
        self.tensors: list[tensor_image.Tensor] = []

    @property
    def mark(self) -> tuple[int, int]:
        """For ``back_to``."""
        return len(self.tensors), len(self.met)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was encoded since: it is not kept."""
        tensors, met = mark
        del self.tensors[tensors:]
        self.met.forget_since(met)

    def encode(self, value: Any, *, depth: int = 0) -> Any:
        """``value`` as JSON. Raises UnencodableError."""
        if depth > _MOST_DEEP:
            raise UnencodableError("a structure that is nested too deep")
        if type(value) is int and value > LEAST_ID:
            return self._maybe_id(value)
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {KIND: "float", "v": repr(value)}
        again = self.met.again(value)
        if again is not None:
            return again
        mark = self.mark
        maker = _ENCODERS.get(type(value))
        try:
            node = (
                self._other(value, depth)
                if maker is None
                else maker(self, value, depth + 1)
            )
        except UnencodableError:
            self.back_to(mark)
            raise
        self.met.add(value, node)
        return node

    def has_met(self, value: Any) -> bool:
        """Whether ``value`` was encoded, and can change."""
        return value in self.met

    def _maybe_id(self, value: int) -> Any:
        place = self._place_of_id(value)
        return value if place is None else {KIND: "id", "v": place}

    def many(self, values: Any, depth: int) -> list[Any]:
        """Each of ``values`` as JSON."""
        if set(map(type, values)) == {int} and max(values) <= LEAST_ID:
            return list(values)  # a random state is one of 625
        return [self.encode(value, depth=depth) for value in values]

    def tensor(self, array: np.ndarray) -> str:
        """Keep ``array``; returns the name of its tensor."""
        if array.dtype.name not in tensor_image.DTYPES:
            raise UnencodableError(f"an array of {array.dtype}")
        name = f"{self._prefix}{len(self.tensors):04d}"
        self.tensors.append(tensor_image.of_array(name, array))
        return name

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, np.generic):
            if value.dtype.name not in tensor_image.DTYPES:
                raise UnencodableError(type_name(value))
            content = base64.b64encode(value.tobytes()).decode()
            return {KIND: "scalar", "dtype": value.dtype.name, "v": content}
        if isinstance(value, pathlib.PurePath):
            return {KIND: "path", "v": str(value)}
        found = self._of_the_framework(value)
        if found is not None:
            return found
        place = reference(value)
        if place is not None:
            return {KIND: "reference", "v": place}
        return self._of_own_kind(value, depth)

    def _of_own_kind(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum) and reference(type(value)) is not None:
            return {KIND: "enum", "type": reference(type(value)), "v": value.name}
        if object_state.is_own(value) and reference(type(value)) is not None:
            return self._object(value, depth)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._named(value, depth)
        table = pandas_state.parts(value)
        if table is not None:
            return {KIND: "table", "v": self.encode(table, depth=depth + 1)}
        if type(value) in iterator_state.KINDS and iterator_state.is_followed(value):
            return {KIND: "iterator", "v": iterator_state.place(value)}
        for base, maker in _TRACKED:
            if isinstance(value, base) and type(value).__module__.startswith(_TRACKING):
                return maker(self, value, depth + 1)
        raise UnencodableError(type_name(value))

    def _of_the_framework(self, value: Any) -> dict[str, Any] | None:
        place = self._place_of(value)
        if place is not None:
            return {KIND: "variable", "v": place}
        array = self._array_of(value)
        if array is None:
            return None
        return {
            KIND: "framework",
            "v": self.tensor(array),
            "type": self._kind_of(value),
        }

    def _named(self, value: Any, depth: int) -> Any:
        kind = reference(type(value))
        if kind is None:
            raise UnencodableError(type_name(value))
        return {KIND: "named", "type": kind, "v": self.many(value, depth + 1)}

    def _object(self, value: Any, depth: int) -> Any:
        attributes = {
            name: self.encode(one, depth=depth + 1)
            for name, one in object_state.attributes(value).items()
            if not self._refers(one)
        }
        return {KIND: "object", "type": reference(type(value)), "v": attributes}


def _encode_dict(encoder: StateEncoder, value: Any, depth: int) -> Any:
    pairs = [encoder.many(pair, depth) for pair in value.items()]
    kind = "ordered" if isinstance(value, collections.OrderedDict) else "dict"
    return {KIND: kind, "v": pairs}


def _encode_default(encoder: StateEncoder, value: Any, depth: int) -> Any:
    return {
        **_encode_dict(encoder, value, depth),
        KIND: "default",
        "f": encoder.encode(value.default_factory, depth=depth),
    }


def _encode_set(encoder: StateEncoder, value: Any, depth: int) -> Any:
    ordered = sorted(value, key=repr)
    return {KIND: type(value).__name__, "v": encoder.many(ordered, depth)}


def _encode_array(encoder: StateEncoder, value: np.ndarray, depth: int) -> Any:
    whole = array_views.owner_of(value)
    if whole is not None and encoder.met.needs_whole(value, whole):
        place = array_views.place_in(value, whole)
        return {KIND: "view", "v": encoder.encode(whole, depth=depth), "in": place}
    order = {"order": "F"} if is_by_columns(value) else {}
    node = {KIND: "array", "v": encoder.tensor(value), **order}
    if whole is not None:
        encoder.met.is_apart(value, whole, node)
    return node


def is_by_columns(array: np.ndarray) -> bool:
    """Whether it lies in memory so: its sum has other bits than that of one by rows."""
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _encode_mapped(encoder: StateEncoder, value: np.memmap) -> Any:
    """In its file only what can be written there and is no copy, which is of its type."""
    if value.nbytes > _MOST_MAPPED_BYTES:
        raise UnencodableError(f"an array of {value.nbytes >> 20} MiB in a file")
    mapped = value.flags.writeable and getattr(value, "_mmap", None) is not None
    name = encoder.tensor(np.asarray(value))
    return {KIND: "mapped" if mapped else "array", "v": name}


_ENCODERS: dict[type, Callable[[StateEncoder, Any, int], Any]] = {
    list: lambda encoder, value, depth: encoder.many(value, depth),
    tuple: lambda encoder, value, depth: {
        KIND: "tuple",
        "v": encoder.many(value, depth),
    },
    dict: _encode_dict,
    collections.OrderedDict: _encode_dict,
    collections.defaultdict: _encode_default,
    collections.Counter: lambda encoder, value, depth: {
        **_encode_dict(encoder, value, depth),
        KIND: "counter",
    },
    set: _encode_set,
    frozenset: _encode_set,
    bytes: lambda _encoder, value, _depth: {
        KIND: "bytes",
        "v": base64.b64encode(value).decode(),
    },
    collections.deque: lambda encoder, value, depth: {
        KIND: "deque",
        "v": encoder.many(value, depth),
        "n": value.maxlen,
    },
    np.ndarray: _encode_array,
    np.memmap: lambda encoder, value, _depth: _encode_mapped(encoder, value),
    random.Random: lambda encoder, value, depth: {
        KIND: "random",
        "v": encoder.encode(value.getstate(), depth=depth),
    },
    np.random.RandomState: lambda encoder, value, depth: {
        KIND: "legacy",
        "v": encoder.encode(value.get_state(legacy=False), depth=depth),
    },
    np.random.Generator: lambda encoder, value, depth: {
        KIND: "generator",
        "v": encoder.encode(value.bit_generator.state, depth=depth),
    },
}

_TRACKED: tuple[tuple[type, Callable[[StateEncoder, Any, int], Any]], ...] = tuple(
    (kind, _ENCODERS[kind]) for kind in (list, dict, tuple)
)
"""What Keras and TensorFlow make of containers that are attributes of a layer or an
optimizer: classes of their own, of these kinds."""
_TRACKING = ("keras.", "tensorflow.python.trackable.")
