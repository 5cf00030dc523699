"""Who holds what: the model's variables, and what the script keeps in its containers.

The allocator's map knows sizes and addresses, not names (TensorFlow's wheels are built
without ``TENSORFLOW_MEM_DEBUG``). Variables are matched by the address of their value.
What a script keeps is found where the garbage collector sees it: in lists, tuples,
dicts and deques.
"""

import gc
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from supervisor.wire.memory import MOST, Kept, Variable
from trainers import seams_fit as seams
from trainers import seams_memory
from trainers.memory.native import Ops

CONTAINERS = (list, tuple, dict, deque)
NAMED = 8
"""So many containers are told of, the largest ones."""
NOTABLE_BYTES = 2**20
"""A container that keeps less is not told of."""


def variables_of(model: Any, ops: Ops | None) -> list[Variable]:
    """The variables that ``model`` trains with, the largest first."""
    found = [_variable(name, one, ops) for name, one in seams.variables(model)]
    return sorted(found, key=lambda one: -one.bytes)[:MOST]


def _variable(name: str, variable: Any, ops: Ops | None) -> Variable:
    inner = seams.tensor_of(variable)
    size = math.prod(inner.shape) * inner.dtype.size
    address = None
    if ops is not None and size:
        address = ops.address(seams_memory.value_of(inner))[0]
    return Variable(name, size, address)


@dataclass
class _Held:
    """What one container keeps."""

    container: Any
    kind: str
    count: int = 0
    bytes: int = 0
    example: str = ""
    sizes: set[int] = field(default_factory=set)


def kept() -> list[Kept]:
    """The containers that keep most, those of tensors first counted alone."""
    seen: set[int] = set()
    found: list[_Held] = []
    for container in gc.get_objects():
        if type(container) in CONTAINERS:
            found += _held(container, seen)
    found.sort(key=lambda held: -held.bytes)
    return [
        Kept(_name(one.container), one.kind, one.count, one.bytes, one.example)
        for one in found[:NAMED]
        if one.bytes >= NOTABLE_BYTES
    ]


def _held(container: Any, seen: set[int]) -> Iterable[_Held]:
    by_kind: dict[str, _Held] = {}
    for value in _values(container):
        kind = _kind(value)
        if kind is None or id(value) in seen:
            continue
        seen.add(id(value))
        held = by_kind.setdefault(kind, _Held(container, kind))
        size = _bytes(value)
        if not held.sizes or size > max(held.sizes):
            held.example = _described(value)
        held.sizes.add(size)
        held.count += 1
        held.bytes += size
    return by_kind.values()


def _values(container: Any) -> Iterator[Any]:
    try:
        yield from container.values() if type(container) is dict else container
    except RuntimeError:  # another thread changes it
        return


def _kind(value: Any) -> str | None:
    if isinstance(value, np.ndarray):
        return "array" if value.base is None else None  # a view keeps no memory
    eager = isinstance(value, tf.Tensor) and hasattr(value, "_numpy")
    return "tensor" if eager else None


def _bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    return math.prod(value.shape) * value.dtype.size


def _described(value: Any) -> str:
    kind = value.dtype.name
    return f"{kind} {tuple(value.shape)}"


def _name(container: Any) -> str:
    """Where the container is, in the words of the script."""
    for holder in gc.get_referrers(container):
        if isinstance(holder, _Held):
            continue
        if type(holder) is dict:
            name = _in_dict(holder, container)
        else:
            name = _attribute(holder, container)
        if name is not None:
            return name
    return f"a {type(container).__name__}"


def _in_dict(holder: dict[Any, Any], container: Any) -> str | None:
    key = next((k for k, v in list(holder.items()) if v is container), None)
    if not isinstance(key, str):
        return None
    if "__name__" in holder and "__builtins__" in holder:
        return f"{holder['__name__']}.{key}"
    for owner in gc.get_referrers(holder):
        if getattr(owner, "__dict__", None) is holder:
            return f"{type(owner).__name__}.{key}"
    return None


def _attribute(holder: Any, container: Any) -> str | None:
    try:
        own = vars(holder)
    except TypeError:
        return None
    key = next((k for k, v in list(own.items()) if v is container), None)
    return None if key is None else f"{type(holder).__name__}.{key}"
