"""A short mark of a value that is another once the value has changed.

What it is for: to look at all that a script can reach, several times a minute.
"""

import collections
import datetime as dt
import hashlib
import io
import itertools
import marshal
import numbers
import pathlib
import random
import re
import sqlite3
import types
import uuid
import warnings
import weakref
import zlib
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from trainers.backends.selected import backend
from trainers.state import array_views, object_state, pandas_state
from trainers.state.hidden.library_state import UnsavedCache

MOST_DEEP = 12
MOST_ITEMS = 50_000
"""Of a container whose items have to be looked at one by one; of a longer one these,
evenly spread, and its length."""
WHOLE_BYTES = 16 << 20
"""Of an array that is read whole; of a larger one as many, evenly spread."""
ALL_BYTES = 256 << 20
"""Of the arrays of one value that are read so; of each one beyond them ``SPARSE_BYTES``. A
value that large is not saved, and a list that grows has another length."""
SPARSE_BYTES = 4096
FOREIGN_DEEP = 3
"""Attributes of a library's object are followed so far."""
STEADY = (
    "logging", "tqdm", "rich", "matplotlib", "wandb", "mlflow", "tensorboard", "keras",
    "tensorflow", "threading", "_thread", "concurrent",
    "io", "_io", "socket", "trainers", "supervisor",
)  # fmt: skip
"""Libraries whose objects change in ways that training does not depend on, or are
looked at in another way."""
ITERATORS: tuple[type, ...] = (
    types.GeneratorType, type(iter([])), type(iter(())), type(iter(range(0))),
    type(iter("")), type(iter({})), type(iter(set())), zip, enumerate, map, filter,
    itertools.count, itertools.cycle, itertools.chain, itertools.islice,
    itertools.repeat, itertools.product, itertools.permutations,
    itertools.combinations, itertools.accumulate, itertools.starmap,
)  # fmt: skip

Mark = Hashable


def of(value: Any) -> Mark:
    """The mark of ``value``: without the variables of a module that it is itself, which
    are looked at one by one, and saved so."""
    return _Look(value).at(value, 0)


class _Look:
    """One look at a value, and at what is inside of it."""

    def __init__(self, root: Any) -> None:
        self._seen: dict[int, Any] = {}
        self._read = 0
        """Bytes of arrays, so far."""
        self._modules = {id(root)}
        """``id`` of it, and of what it is made of, where it is a module."""

    def at(self, value: Any, depth: int) -> Mark:
        """Its mark; what was looked at before is only named."""
        if isinstance(value, np.ndarray):
            return self.of_array(value, depth), _place(value)
        if not _holds_buffers(value):
            try:
                return hashlib.blake2b(marshal.dumps(value, 2), digest_size=16).digest()
            except ValueError:  # not of plain values alone
                pass
        if depth > MOST_DEEP or id(value) in self._seen:
            return type(value).__name__
        self._seen[id(value)] = value
        for kind, mark in _MARKS:
            if isinstance(value, kind):
                return mark(self, value, depth)
        return self.of_object(value, depth)

    def of_array(self, value: np.ndarray, depth: int) -> Mark:
        """Of its bytes, of a large one of some."""
        if value.dtype.hasobject:
            return self.of_items(value.ravel().tolist(), depth)
        shape = value.shape
        most = WHOLE_BYTES if self._read < ALL_BYTES else SPARSE_BYTES
        if value.nbytes > most:
            value = value.reshape(-1)[:: value.nbytes // most + 1]
        self._read += value.nbytes
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return shape, value.dtype.str, zlib.crc32(content.data)

    def of_mapping(self, value: Mapping[Any, Any], depth: int) -> Mark:
        """Of keys and values, in their order."""
        pairs = itertools.chain.from_iterable(_some(list(value.items())))
        return len(value), tuple(self.at(one, depth + 1) for one in pairs)

    def of_items(self, value: Any, depth: int) -> Mark:
        """Of a container's items, in their order."""
        items = list(value)
        return len(items), tuple(self.at(one, depth + 1) for one in _some(items))

    def of_iterator(self, value: Any, depth: int) -> Mark:
        """Of where it stands."""
        if isinstance(value, types.GeneratorType):
            frame = value.gi_frame
            if frame is None:
                return -1
            return frame.f_lasti, self.of_mapping(frame.f_locals, depth)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            _, *parts = value.__reduce__()
        return tuple(self.at(one, depth + 1) for one in parts)

    def of_object(self, value: Any, depth: int) -> Mark:
        """Which one it is, and its attributes; of a library's not too deep."""
        array = backend.values.tensor_array(value)
        if array is not None:
            return self.of_array(array, depth)
        table = pandas_state.content(value)
        if table is not None:
            return id(value), self.at(table, depth + 1)
        library = type(value).__module__.partition(".")[0]
        own = object_state.is_of_own_class(value)
        if library in STEADY or (depth > FOREIGN_DEEP and not own):
            return id(value)
        held = dict(object_state.attributes(value))
        if id(value) in self._modules:
            self._modules |= {id(part) for _, part in backend.hidden.held_in(value)}
            apart = backend.hidden.names_of_tensors(value)
            held = {name: one for name, one in held.items() if name not in apart}
        return id(value), self.of_mapping(held, depth)


def _place(array: np.ndarray) -> Hashable:
    """Where it lies in the memory of another; None: it has its own."""
    owner = array_views.owner_of(array)
    if owner is None:
        return None
    place = array_views.place_in(array, owner)
    return place["at"], array.strides


def _holds_buffers(value: Any) -> bool:
    """Whether ``value`` is a container that holds what ``marshal`` would copy byte by
    byte: arrays and tensors, as many as there are, beside what a leak has taken."""
    pending, seen = [value], set[int]()  # one may be deep, or hold itself
    while pending:
        one = pending.pop()
        if type(one) not in NESTED or id(one) in seen:
            continue
        seen.add(id(one))
        items = [*one.values()] if isinstance(one, dict) else list(one)
        kinds = {kind for kind in map(type, items) if kind not in MARSHALLED}
        if any(not issubclass(kind, np.generic) for kind in kinds - NESTED):
            return True
        if kinds & NESTED:
            pending += _some(items)
    return False


def _some(items: list[Any]) -> list[Any]:
    return items if len(items) <= MOST_ITEMS else items[:: len(items) // MOST_ITEMS + 1]


def _content(file: io.StringIO | io.BytesIO) -> Any:
    return None if file.closed else (file.getvalue(), file.tell())


def _plain(value: Any) -> Any:
    """``value`` with lists for its arrays."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


TOLD = (
    range, slice, numbers.Number, pathlib.PurePath, uuid.UUID, dt.date,
    dt.time, dt.timedelta, re.Pattern,
)  # fmt: skip
"""Their text says all there is."""
NESTED = frozenset({dict, list, tuple, set, frozenset})
MARSHALLED = frozenset({type(None), bool, int, float, complex, str, bytes})
"""What ``marshal`` writes for what it is: of others it copies the buffer, or refuses."""
IN_MEMORY = (io.StringIO, io.BytesIO)
HASHES = (type(hashlib.sha256()), type(hashlib.blake2b()), type(hashlib.blake2s()))
WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
REFERENCES = (types.FunctionType, types.MethodType, types.ModuleType, type)

_MARKS: tuple[tuple[Any, Callable[[_Look, Any, int], Mark]], ...] = (
    (np.generic, lambda _look, one, _depth: (one.dtype.str, one.tobytes())),
    (
        UnsavedCache,
        lambda look, one, depth: (one.misses, look.at(list(one.results), depth)),
    ),
    (TOLD, lambda _look, one, _depth: repr(one)),
    (REFERENCES, lambda _look, one, _depth: id(one)),
    (dict, _Look.of_mapping),
    (IN_MEMORY, lambda look, one, depth: look.at(_content(one), depth)),
    (sqlite3.Connection, lambda _look, one, _depth: one.total_changes),
    (HASHES, lambda _look, one, _depth: one.digest()),
    (WEAK, lambda look, one, depth: look.of_mapping(dict(one), depth)),
    ((list, tuple, set, frozenset, collections.deque), _Look.of_items),
    (random.Random, lambda look, one, depth: look.at(one.getstate(), depth)),
    (
        np.random.RandomState,
        lambda look, one, depth: look.at(_plain(one.get_state(legacy=False)), depth),
    ),
    (
        np.random.Generator,
        lambda look, one, depth: look.at(_plain(one.bit_generator.state), depth),
    ),
    (ITERATORS, _Look.of_iterator),
)
