# ruff: noqa: EM101, EM102, TRY003  # these exceptions are their sentences
"""Python values as JSON and tensors, exactly, and back: no pickle anywhere.

Plain JSON stands for itself; everything else is an object ``{"!": kind, …}``. What has
no kind here is not guessed at: ``UnencodableError`` names it.
"""

import base64
import collections
import math
import pathlib
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainers import tensors

_KIND = "!"
_MOST_DEEP = 32


class UnencodableError(Exception):
    """A value of a type whose state cannot be saved; the text names the type."""


def type_name(value: Any) -> str:
    """``module.Name`` of the value's type."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def reference(value: Any) -> str | None:
    """``module:name`` if that is where ``value`` can be found again, else None."""
    module = getattr(value, "__module__", None) or "numpy"  # ufuncs have none
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    return f"{module}:{name}" if _find(f"{module}:{name}") is value else None


def _find(place: str) -> Any:
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class Encoder:
    """Collects the tensors it meets under names that start with ``prefix``."""

    def __init__(self, prefix: str, *, array_of: Callable[[Any], Any]) -> None:
        """``array_of(value)``: the array of a framework's tensor or variable, or None.

        It is the one thing here that depends on the framework.
        """
        self._prefix = prefix
        self._array_of = array_of
        self.tensors: list[tensors.Tensor] = []

    def encode(self, value: Any, *, depth: int = 0) -> Any:
        """``value`` as JSON. Raises UnencodableError."""
        if depth > _MOST_DEEP:
            raise UnencodableError("a structure that is nested too deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {_KIND: "float", "v": repr(value)}
        maker = _ENCODERS.get(type(value))
        if maker is not None:
            return maker(self, value, depth + 1)
        return self._other(value)

    def many(self, values: Any, depth: int) -> list[Any]:
        """Each of ``values`` as JSON."""
        if set(map(type, values)) == {int}:
            return list(values)  # a random state is one of 625
        return [self.encode(value, depth=depth) for value in values]

    def tensor(self, array: np.ndarray) -> str:
        """Keep ``array``; returns the name of its tensor."""
        if array.dtype.name not in tensors.DTYPES:
            raise UnencodableError(f"an array of {array.dtype}")
        name = f"{self._prefix}{len(self.tensors):04d}"
        self.tensors.append(tensors.of_array(name, array))
        return name

    def _other(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            if value.dtype.name not in tensors.DTYPES:
                raise UnencodableError(type_name(value))
            content = base64.b64encode(value.tobytes()).decode()
            return {_KIND: "scalar", "dtype": value.dtype.name, "v": content}
        if isinstance(value, pathlib.PurePath):
            return {_KIND: "path", "v": str(value)}
        array = self._array_of(value)
        if array is not None:
            return {
                _KIND: "framework",
                "v": self.tensor(array),
                "type": type_name(value),
            }
        place = reference(value)
        if place is not None:
            return {_KIND: "reference", "v": place}
        raise UnencodableError(type_name(value))


def _encode_dict(encoder: Encoder, value: Any, depth: int) -> Any:
    pairs = [encoder.many(pair, depth) for pair in value.items()]
    kind = "ordered" if isinstance(value, collections.OrderedDict) else "dict"
    return {_KIND: kind, "v": pairs}


def _encode_default(encoder: Encoder, value: Any, depth: int) -> Any:
    return {
        **_encode_dict(encoder, value, depth),
        _KIND: "default",
        "f": encoder.encode(value.default_factory, depth=depth),
    }


def _encode_set(encoder: Encoder, value: Any, depth: int) -> Any:
    ordered = sorted(value, key=repr)
    return {_KIND: type(value).__name__, "v": encoder.many(ordered, depth)}


def _encode_array(encoder: Encoder, value: Any, _depth: int) -> Any:
    return {_KIND: "array", "v": encoder.tensor(value)}


def _encode_deque(encoder: Encoder, value: Any, depth: int) -> Any:
    return {_KIND: "deque", "v": encoder.many(value, depth), "n": value.maxlen}


def _encode_random(encoder: Encoder, value: random.Random, depth: int) -> Any:
    return {_KIND: "random", "v": encoder.encode(value.getstate(), depth=depth)}


def _encode_generator(encoder: Encoder, value: Any, depth: int) -> Any:
    state = value.bit_generator.state
    return {_KIND: "generator", "v": encoder.encode(state, depth=depth)}


_ENCODERS: dict[type, Callable[[Encoder, Any, int], Any]] = {
    list: lambda encoder, value, depth: encoder.many(value, depth),
    tuple: lambda encoder, value, depth: {
        _KIND: "tuple",
        "v": encoder.many(value, depth),
    },
    dict: _encode_dict,
    collections.OrderedDict: _encode_dict,
    collections.defaultdict: _encode_default,
    collections.Counter: lambda encoder, value, depth: {
        **_encode_dict(encoder, value, depth),
        _KIND: "counter",
    },
    set: _encode_set,
    frozenset: _encode_set,
    bytes: lambda _encoder, value, _depth: {
        _KIND: "bytes",
        "v": base64.b64encode(value).decode(),
    },
    collections.deque: _encode_deque,
    np.ndarray: _encode_array,
    random.Random: _encode_random,
    np.random.Generator: _encode_generator,
}


class Decoder:
    """Rebuilds values; where there is one already, in place: others may refer to it."""

    def __init__(
        self,
        stored: Mapping[str, np.ndarray],
        *,
        assign: Callable[[Any, np.ndarray, str], Any],
    ) -> None:
        """``assign(existing, array, type)``: the framework value for ``array``:
        ``existing`` with that value if it is a variable, else a new one of the type
        (by its name) that was saved."""
        self._stored = stored
        self._assign = assign

    def decode(self, value: Any, *, existing: Any = None) -> Any:
        """The value that was encoded as ``value``."""
        if isinstance(value, list):
            return _into_list(existing, [self.decode(one) for one in value])
        if not isinstance(value, dict):
            return value
        kind = value[_KIND]
        if kind in ("array", "framework"):
            return self._array(value, self._stored[value["v"]], existing)
        if kind in ("dict", "ordered", "counter", "default"):
            return self._dict(kind, value, existing)
        if kind in ("random", "generator"):
            return self._random(kind, self.decode(value["v"]), existing)
        return self._plain(kind, value, existing)

    def _plain(  # noqa: PLR0911  # a table of kinds
        self, kind: str, value: dict[str, Any], existing: Any
    ) -> Any:
        content = value["v"]
        if kind == "float":
            return float(content)
        if kind == "scalar":
            dtype = tensors.numpy_dtype(value["dtype"])
            return np.frombuffer(base64.b64decode(content), dtype)[0]
        if kind == "bytes":
            return base64.b64decode(content)
        if kind == "path":
            return pathlib.Path(content)
        if kind == "reference":
            return _find(content)
        items = [self.decode(one) for one in content]
        if kind == "deque":
            return _into_deque(existing, collections.deque(items, value["n"]))
        if kind == "set":
            return _into_set(existing, set(items))
        return {"tuple": tuple, "frozenset": frozenset}[kind](items)

    def _array(self, value: dict[str, Any], array: np.ndarray, existing: Any) -> Any:
        if value[_KIND] == "framework":
            return self._assign(existing, array, value.get("type", ""))
        return _into_array(existing, array)

    def _dict(self, kind: str, value: dict[str, Any], existing: Any) -> Any:
        present = existing if isinstance(existing, dict) else {}
        pairs = []
        for stored_key, stored in value["v"]:
            key = self.decode(stored_key)
            pairs.append((key, self.decode(stored, existing=present.get(key))))
        if kind == "default":
            made: Any = collections.defaultdict(self.decode(value["f"]), pairs)
        else:
            maker = {"dict": dict, "ordered": collections.OrderedDict}
            made = maker.get(kind, collections.Counter)(dict(pairs))
        if type(existing) is not type(made):
            return made
        existing.clear()
        existing.update(made)
        return existing

    def _random(self, kind: str, state: Any, existing: Any) -> Any:
        if kind == "random":
            made = existing if type(existing) is random.Random else random.Random()  # noqa: S311
            made.setstate(state)
            return made
        name = state["bit_generator"]
        if type(existing) is not np.random.Generator:
            existing = np.random.Generator(getattr(np.random, name)())
        existing.bit_generator.state = state
        return existing


def _into_array(existing: Any, array: np.ndarray) -> Any:
    same = isinstance(existing, np.ndarray) and existing.flags.writeable
    if same and (existing.shape, existing.dtype) == (array.shape, array.dtype):
        np.copyto(existing, array)
        return existing
    return array.copy()


def _into_list(existing: Any, items: list[Any]) -> list[Any]:
    if type(existing) is not list:
        return items
    existing[:] = items
    return existing


def _into_set(existing: Any, items: set[Any]) -> set[Any]:
    if type(existing) is not set:
        return items
    existing.clear()
    existing |= items
    return existing


def _into_deque(existing: Any, items: collections.deque[Any]) -> Any:
    same = isinstance(existing, collections.deque) and existing.maxlen == items.maxlen
    if not same:
        return items
    existing.clear()
    existing.extend(items)
    return existing
