"""The decoder of state: from JSON and tensors back to the values that ``encode`` had."""

import base64
import collections
import copy
import enum
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from trainers.snapshots import tensor_image
from trainers.state import array_views, iterator_state, object_state, pandas_state
from trainers.state.encode import KIND, PART, is_by_columns, label_of
from trainers.state.references import UntrustedNameError, class_of, given_back

DICTIONARIES = ("dict", "ordered", "counter", "default")


ONTO_WHAT_IS_THERE = frozenset({
    "object", "framework", "tuple", "named", "iterator", "reference", "mapped",
    "table", "view",
})  # fmt: skip
"""Kinds that are decoded with what is in their place now."""
CHANGEABLE_TYPES = (
    list, dict, set, collections.deque, np.ndarray, random.Random, np.random.Generator,
    np.random.RandomState,
)  # fmt: skip
"""Of what is marked by all that is in it."""
ARRAYS = ("array", "framework", "mapped")
GENERATORS = ("random", "generator", "legacy")
TWISTER_WORDS = 624
FILLED = frozenset({
    *DICTIONARIES, *ARRAYS, *GENERATORS, "object", "table", "deque", "set", "iterator",
})  # fmt: skip
"""Kinds, beside lists, whose value goes into what is in its place."""


class Made:
    """What was made so far of all that was encoded with one ``Met``, and where it goes."""

    def __init__(self, *, told_apart: bool = True) -> None:
        """``told_apart``: what is one under several names is told so, and what is not is
        two that may be equal. Older snapshots do not say."""
        self.told_apart = told_apart
        self.labelled: dict[str, Any] = {}
        self.filled: dict[int, tuple[Any, Any]] = {}
        """By ``id``, what has been given a value or is kept for one, and which (encoded)."""
        self.places: dict[str, Any] = {}
        """By label, what it goes into, wherever it is met first."""
        self.held: dict[tuple[str, str], np.ndarray] = {}
        """Arrays that nothing has changed, by where they are."""

    def keep(self, existing: Any, node: Any = None) -> None:
        """``existing`` is for nothing but ``node``; None: it stays as it is."""
        if not self.told_apart or not isinstance(existing, CHANGEABLE_TYPES):
            return
        self.filled.setdefault(id(existing), (existing, node))
        whole = array_views.owner_of(existing)
        if node is None and whole is not None:
            self.filled.setdefault(id(whole), (whole, None))

    def goes_into(self, node: Any, existing: Any) -> None:
        """``node`` goes into ``existing``, unless that is for another, or it has a place."""
        label = label_of(node)
        if not self.told_apart or label is None or existing is None:
            return
        _, other = self.filled.get(id(existing), (None, node))
        if other is node:
            self.places.setdefault(label, existing)


class StateDecoder:
    """Rebuilds values; where there is one already, in place: others may refer to it."""

    def __init__(
        self,
        stored: Mapping[str, np.ndarray],
        *,
        assign: Callable[[Any, np.ndarray, str], Any],
        variable_at: Callable[[Any], Any] = lambda _place: None,
        whole: Any = None,
        made: Made | None = None,
    ) -> None:
        """``assign(existing, array, type)``: the framework value for ``array``:
        ``existing`` with that value if it is a variable, else a new one of the type
        (by its name) that was saved. ``variable_at(place)``: the model's variable.
        ``whole``: all that is decoded here; what is the same as something in it that has
        not had its turn yet is found there. ``made``: what another decoder has made of what
        is encoded with the same ``Met``; it grows."""
        self._stored = stored
        self._assign = assign
        self._variable_at = variable_at
        self._whole = whole
        self._so_far = Made(told_apart=False) if made is None else made
        self._labelled = self._so_far.labelled

    def decode(self, value: Any, *, existing: Any = None) -> Any:
        """The value that was encoded as ``value``."""
        label = label_of(value)
        if label in self._labelled:
            return self._labelled[label]
        if isinstance(value, dict) and value[KIND] == "same":
            return self._same(value["v"], existing)
        made = self._made(value, self._so_far.places.get(str(label), existing))
        if label is not None:
            self._labelled[label] = made
        return made

    def _made(self, value: Any, existing: Any) -> Any:
        existing = self._its_own(value, existing)
        if isinstance(value, list):
            items = value if label_of(value) is None else value[1:]
            return _into(existing, self._items(items, existing))
        if not isinstance(value, dict):
            return value
        kind = value[KIND]
        if kind in ARRAYS:
            return self._array(value, self._stored[value["v"]], existing)
        if kind in DICTIONARIES:
            return self._dict(kind, value, existing)
        if kind in GENERATORS:
            return self._random(kind, self.decode(value["v"]), existing)
        return self._plain(kind, value, existing)

    def _same(self, label: str, existing: Any) -> Any:
        """What has ``label``. Raises NoWayBackError: nothing that is decoded here has."""
        if label not in self._labelled:
            found = labelled_in(self._whole)
            node = next((one for known, one in found if known == label), None)
            if node is None:
                message = "it was one with something that is not there"
                raise iterator_state.NoWayBackError(message)
            self.decode(node, existing=existing)
        return self._labelled[label]

    def _its_own(self, value: Any, existing: Any) -> Any:
        """``existing``, but not once another value is in it: two names may have held one
        thing at the start, and two since."""
        fills = isinstance(value, list) or (
            isinstance(value, dict) and value[KIND] in FILLED
        )
        if existing is None or not fills:
            return existing
        _, first = self._so_far.filled.setdefault(id(existing), (existing, value))
        if self._so_far.told_apart and not _is_iterator(value):
            return existing if first is value else None
        return existing if self._is_same(first, value) else None

    def _is_same(self, one: Any, other: Any) -> bool:
        if one is other or type(one) is not type(other):
            return one is other
        if isinstance(one, list):
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(self._is_same(*two) for two in pairs)
        if not isinstance(one, dict):
            return bool(one == other)
        if one.get(KIND) == other.get(KIND) and one.get(KIND) in ARRAYS:
            first, second = self._stored[one["v"]], self._stored[other["v"]]
            return (first.shape, first.dtype, first.tobytes()) == (
                second.shape, second.dtype, second.tobytes(),
            )  # fmt: skip
        return one.keys() == other.keys() and all(
            self._is_same(one[key], other[key]) for key in one
        )

    def _items(self, value: list[Any], existing: Any) -> list[Any]:
        """Each on what is in its place now: objects refer to what only they know, and
        others refer to variables."""
        present = existing if type(existing) in (list, tuple) else ()
        present = [*present[: len(value)], *[None] * (len(value) - len(present))]
        return [
            self.decode(one, existing=_in_place(one, there))
            for one, there in zip(value, present, strict=True)
        ]

    def _plain(self, kind: str, value: dict[str, Any], existing: Any) -> Any:
        content = value["v"]
        if kind == "object":
            return self._object(value, existing)
        if kind in ("variable", "id"):
            found = self._variable_at(content)
            return id(found) if kind == "id" else found
        if kind in _LEAVES:
            return _LEAVES[kind](value)
        if kind == "reference":
            return given_back(content, existing=existing)
        if kind == "iterator":
            iterator_state.move(existing, content)
            return existing
        return self._holding(kind, value, existing)

    def _holding(self, kind: str, value: dict[str, Any], existing: Any) -> Any:
        content = value["v"]
        if kind == "view":
            return self._view(value, existing)
        if kind == "table":
            return pandas_state.put_back(self.decode(content), existing)
        if kind == "tuple":
            return tuple(self._items(content, existing))
        if kind == "named":
            return _named_tuple(value["type"])(*self._items(content, existing))
        items = [self.decode(one) for one in content]
        if kind == "deque":
            return _into(existing, collections.deque(items, value["n"]))
        return _into(existing, set(items)) if kind == "set" else frozenset(items)

    def _array(self, value: dict[str, Any], array: np.ndarray, existing: Any) -> Any:
        if value[KIND] == "framework":
            return self._assign(existing, array, value.get("type", ""))
        if value[KIND] == "mapped":
            return _into_file(existing, array)
        return _into_array(existing, np.asarray(array, order=value.get("order")))

    def _view(self, value: dict[str, Any], existing: Any) -> Any:
        whole = self._whole_of(value["v"], existing)
        if not isinstance(whole, np.ndarray):
            raise iterator_state.NoWayBackError(array_views.OUTSIDE)
        found = array_views.at_place(whole, value["in"])
        return existing if array_views.are_one(existing, found) else found

    def _whole_of(self, value: Any, part: Any) -> Any:
        """What ``value`` says that a part is of, which ``part`` is now."""
        if isinstance(value, dict) and value[KIND] == "held":
            return self._so_far.held.get(tuple(value["v"]))
        return self.decode(value, existing=array_views.owner_of(part))

    def _dict(self, kind: str, value: dict[str, Any], existing: Any) -> Any:
        present = existing if isinstance(existing, dict) else {}
        pairs = []
        for stored_key, stored in value["v"]:
            key = self.decode(stored_key)
            pairs.append((key, self.decode(stored, existing=present.get(key))))
        if kind == "default":
            factory = getattr(existing, "default_factory", None)
            factory = self.decode(value["f"], existing=factory)
            made: Any = collections.defaultdict(factory, pairs)
        else:
            maker = {"dict": dict, "ordered": collections.OrderedDict}
            made = maker.get(kind, collections.Counter)(dict(pairs))
        if type(existing) is not type(made) and not _is_tracked(existing, dict):
            return made
        if PART not in value:
            existing.clear()
        existing.update(made)
        return existing

    def _object(self, value: dict[str, Any], existing: Any) -> Any:
        """In place; a new one is made without its ``__init__``, as ``copy`` does."""
        kind = class_of(value["type"], object)
        if not object_state.is_own_kind(kind):
            raise UntrustedNameError(value["type"])
        made = existing if type(existing) is kind else kind.__new__(kind)
        present = object_state.attributes(made)
        for name, stored in value["v"].items():
            content = self.decode(stored, existing=present.get(name))
            object_state.give_back(made, name, content)
        return made

    def _random(self, kind: str, state: Any, existing: Any) -> Any:
        if kind == "random":
            python = existing if type(existing) is random.Random else random.Random()  # noqa: S311  # no secret
            python.setstate(state)
            return python
        _refuse_place_outside(state)
        if kind == "legacy":
            made = existing if _is_legacy(existing) else np.random.RandomState()
            made.set_state(state)
            return made
        name = state["bit_generator"]
        if type(existing) is not np.random.Generator:
            bits = class_of(f"numpy.random:{name}", np.random.BitGenerator)
            existing = np.random.Generator(bits())
        existing.bit_generator.state = state
        return existing


def _is_iterator(value: Any) -> bool:
    """Whether it is encoded as often as it is met, as it is moved only."""
    return isinstance(value, dict) and value[KIND] == "iterator"


def labelled_in(value: Any) -> Iterator[tuple[str, Any]]:
    """The labels in the encoded ``value``, each with what has it."""
    label = label_of(value)
    if label is not None:
        yield label, value
    if isinstance(value, (list, dict)):
        for one in value if isinstance(value, list) else value.values():
            yield from labelled_in(one)


def _refuse_place_outside(state: dict[str, Any]) -> None:
    """NumPy reads where a Mersenne Twister is said to stand (``_mt19937.pyx``), in its state
    or beyond it. Raises NoWayBackError."""
    place = state.get("state", {}).get("pos", 0)
    if not 0 <= place <= TWISTER_WORDS:
        message = f"its generator stands at {place} of {TWISTER_WORDS} numbers"
        raise iterator_state.NoWayBackError(message)


def _in_place(value: Any, there: Any) -> Any:
    """What ``value`` is decoded into: ``there``, its place in a list or tuple, or None.

    Of a container only what is in it is kept, and arrays are made anew: one list or
    array may stand in several places.
    """
    kind = value[KIND] if isinstance(value, dict) else None
    if kind in ONTO_WHAT_IS_THERE:
        return there
    holds = isinstance(value, list) or kind in DICTIONARIES
    return copy.copy(there) if holds and isinstance(there, (list, dict)) else None


def _into_array(existing: Any, array: np.ndarray) -> Any:
    alike = _takes(existing, array) and (
        is_by_columns(existing) is is_by_columns(array)
        and array_views.owner_of(existing) is None  # others lie there, too
    )
    if alike and existing.flags.writeable:
        np.copyto(existing, array)
        return existing
    if alike and existing.tobytes() == array.tobytes():
        return existing  # a file that is only read, say
    return array.copy(order="K")


def _takes(existing: Any, array: np.ndarray) -> bool:
    kind = array.shape, array.dtype
    return isinstance(existing, np.ndarray) and kind == (existing.shape, existing.dtype)


def _into_file(existing: Any, array: np.ndarray) -> Any:
    """An array in a file: its content goes there. Raises NoWayBackError."""
    mapped = isinstance(existing, np.memmap) and existing.flags.writeable
    if not mapped or not _takes(existing, array):
        message = "it is no array of that shape in a file that can be written to now"
        raise iterator_state.NoWayBackError(message)
    np.copyto(existing, array)
    return existing


def _into(existing: Any, items: Any) -> Any:
    """``existing`` with ``items`` in it, if it is a list, set or deque as they are."""
    longest = getattr(items, "maxlen", None)
    same = type(existing) is type(items) or _is_tracked(existing, type(items))
    if not same or getattr(existing, "maxlen", None) != longest:
        return items
    existing.clear()
    fill = existing.update if isinstance(existing, set) else existing.extend
    fill(items)
    return existing


def _is_tracked(value: Any, kind: type) -> bool:
    """Whether it is what Keras makes of a ``kind`` that is an attribute of a layer."""
    return isinstance(value, kind) and type(value).__module__.startswith("keras.")


def _is_legacy(value: Any) -> bool:
    return type(value) is np.random.RandomState


def _named_tuple(place: str) -> Any:
    kind = class_of(place, tuple)
    if not hasattr(kind, "_fields"):
        raise UntrustedNameError(place)
    return kind


def _scalar(value: dict[str, Any]) -> Any:
    dtype = tensor_image.numpy_dtype(value["dtype"])
    return np.frombuffer(base64.b64decode(value["v"]), dtype)[0]


_LEAVES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "float": lambda value: float(value["v"]),
    "scalar": _scalar,
    "bytes": lambda value: base64.b64decode(value["v"]),
    "path": lambda value: pathlib.Path(value["v"]),
    "enum": lambda value: class_of(value["type"], enum.Enum)[value["v"]],
}
