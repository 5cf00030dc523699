"""What calls return, as bytes and back; and what they are called with, told apart.

A result is its template (how it is nested, with dtype and shape of each tensor; JSON) and
the bytes of its leaves. Templates recur; leaves do not.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainers.backends.selected import backend

MOST_LOOKED_AT = 512
"""Bytes at either end of an argument that each call is known by."""
PLAIN = (bool, int, float, str, type(None))
LONG = "number of more than 64 bits"
_SCALARS = {float: "float64", int: "int64", bool: "bool"}


class UnpackableError(Exception):
    """A value of a kind that is not recorded; the text names it."""


def pack(value: Any) -> tuple[str, list[Any]]:
    """The template of ``value``, and its leaves in order, not yet read.

    Raises UnpackableError.
    """
    leaves: list[Any] = []
    return json.dumps(_template(value, leaves)), leaves


def bytes_of(leaves: list[Any]) -> bytes:
    """Their content; waits for the device that computes them."""
    return b"".join(np.asarray(_array(one)).tobytes() for one in leaves)


def size_of(template: str) -> int:
    """Bytes that the leaves of a result of this template take."""
    return sum(_nbytes(one) for one in _leaves(json.loads(template)))


def unpack(template: str, content: bytes) -> Any:
    """What was packed."""
    return _value(json.loads(template), _ArrayReader(content))


def _template(value: Any, leaves: list[Any]) -> Any:
    kind = type(value)
    if value is None or kind is str:
        return {"v": value}
    if kind in _SCALARS:
        try:
            leaves.append(np.array(value, _SCALARS[kind]))
        except OverflowError:
            raise UnpackableError(LONG) from None
        return {"k": kind.__name__, "d": _SCALARS[kind], "s": []}
    if kind in (list, tuple):
        return {kind.__name__: [_template(one, leaves) for one in value]}
    if kind is dict and all(type(key) in (str, int) for key in value):
        return {"dict": [[k, _template(one, leaves)] for k, one in value.items()]}
    return _leaf(value, leaves)


def _leaf(value: Any, leaves: list[Any]) -> dict[str, Any]:
    if backend.calls.is_tensor(value):
        name, what = "tensor", value
    elif isinstance(value, np.ndarray):
        name, what = "array", value
    elif isinstance(value, np.generic):
        name, what = "scalar", np.asarray(value)
    else:
        raise UnpackableError(type(value).__name__)
    dtype, shape = backend.calls.dtype_and_shape(what)
    if dtype not in NUMERIC:
        message = f"{type(value).__name__} of {dtype}"
        raise UnpackableError(message)
    leaves.append(what)
    return {"k": name, "d": dtype, "s": list(shape)}


NUMERIC = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
})  # fmt: skip


def _array(leaf: Any) -> Any:
    return backend.calls.array_of(leaf) if backend.calls.is_tensor(leaf) else leaf


class _ArrayReader:
    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def take(self, dtype: str, shape: list[int]) -> np.ndarray:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        found = np.frombuffer(self._content, kind, count, self._place)
        self._place += found.nbytes
        return found.reshape(shape).copy()


def _value(template: Any, reader: _ArrayReader) -> Any:
    if "v" in template:
        return template["v"]
    if "dict" in template:
        return {key: _value(one, reader) for key, one in template["dict"]}
    if "k" in template:
        array = reader.take(template["d"], template["s"])
        return _LEAVES.get(template["k"], np.ndarray.item)(array)
    ((kind, inside),) = template.items()
    values = [_value(one, reader) for one in inside]
    return tuple(values) if kind == "tuple" else values


_LEAVES: dict[str, Callable[[np.ndarray], Any]] = {
    "tensor": backend.calls.tensor_of,
    "array": lambda array: array,
    "scalar": lambda array: array[()],
}
"""By the kind of a leaf; any other is a number of Python's."""


def _leaves(template: Any) -> Iterator[Any]:
    if "d" in template:
        yield template
    for one in template.get("list", template.get("tuple", ())):
        yield from _leaves(one)
    for _, one in template.get("dict", ()):
        yield from _leaves(one)


def _nbytes(leaf: Any) -> int:
    return int(np.prod(leaf["s"], dtype=np.int64)) * np.dtype(leaf["d"]).itemsize


# --- arguments -----------------------------------------------------------------------


def key_of(values: Any) -> Any:
    """What tells calls of one kind from others: kinds, dtypes, shapes, plain values."""
    kind = type(values)
    if kind in PLAIN:
        return values
    if kind in (tuple, list):
        return tuple([key_of(one) for one in values])
    if kind is dict:
        return tuple([(str(k), key_of(one)) for k, one in values.items()])
    if backend.calls.is_tensor(values) or isinstance(values, np.ndarray):
        return values.dtype.name, tuple(values.shape)
    return kind.__name__


def sum_of(values: Any, *, whole: bool, total: int = 0) -> int:
    """A checksum (CRC-32) of the tensors in arguments; of both ends of each, if not
    ``whole``. What lies on a device is left out: reading it would wait for it."""
    kind = type(values)
    if kind in PLAIN:
        return total
    if kind in (tuple, list):
        for one in values:
            total = sum_of(one, whole=whole, total=total)
        return total
    if kind is dict:
        return sum_of(list(values.values()), whole=whole, total=total)
    if backend.calls.is_tensor(values):
        if not backend.calls.in_main_memory(values):
            return total
        values = backend.calls.array_of(values)
    if not isinstance(values, np.ndarray) or values.dtype.hasobject:
        return total
    return _sum_of_array(values, total, whole=whole)


def _sum_of_array(array: np.ndarray, total: int, *, whole: bool) -> int:
    if array.nbytes > 2 * MOST_LOOKED_AT and not whole:
        flat = array.reshape(-1)
        count = max(1, MOST_LOOKED_AT // array.itemsize)
        total = zlib.crc32(flat[:count].tobytes(), total)
        return zlib.crc32(flat[-count:].tobytes(), total)
    return zlib.crc32(array.tobytes(), total)
