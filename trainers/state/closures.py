"""The state of a callback's functions outside of it: closures and the script's globals.

``LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(logs["loss"]))`` has its
state in the list ``losses``, not in an attribute. Saved are containers and objects of
the script's own classes that a function can reach by name, and names that it binds anew
(``nonlocal``, ``global``); read-only references (models, data, modules) are the script's.
"""

import collections
import dis
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainers.state import decode, encode, object_state

LIBRARIES = ("builtins", "keras", "tensorflow", "numpy", "trainers", "supervisor")
"""Functions of these keep nothing of the script's."""

MOST_BYTES = 1024 * 1024
"""Arrays beyond this are data, not state."""

CONTAINERS = (list, dict, set, collections.deque, bytearray)


@dataclass(frozen=True, slots=True)
class Place:
    """A name outside of a callback, and how to reach what it stands for."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]
    bound: bool
    """The function binds the name itself: any value is state."""


def functions(callback: Any) -> Iterator[types.FunctionType]:
    """The script's own functions that ``callback`` calls: given ones and methods."""
    kinds = [vars(kind) for kind in type(callback).__mro__ if not _is_library(kind)]
    for names in [vars(callback), *kinds]:
        for value in list(names.values()):
            inner = getattr(value, "__func__", value)
            if isinstance(inner, types.FunctionType) and not _is_library(inner):
                yield inner


def _is_library(thing: Any) -> bool:
    return (thing.__module__ or "").partition(".")[0] in LIBRARIES


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.cache
def _used(whole: types.CodeType) -> tuple[set[str], set[str]]:
    """The names of globals that ``whole`` uses, and all names that it binds."""
    used: set[str] = set()
    bound: set[str] = set()
    for code in _codes(whole):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL":
                used.add(instruction.argval)
            elif instruction.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                bound.add(instruction.argval)
    return used, bound


def places(callback: Any) -> list[Place]:
    """Every name outside of ``callback`` that its functions can reach, once."""
    found: dict[str, Place] = {}
    for function in functions(callback):
        used, bound = _used(function.__code__)
        cells = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        for name, cell in cells:
            key = f"{function.__qualname__}/{name}"
            found.setdefault(key, _of_cell(key, cell, bound=name in bound))
        module = function.__globals__
        for name in sorted((used | bound) & set(module)):
            found.setdefault(name, _of_global(name, module, bound=name in bound))
    return list(found.values())


def _of_cell(name: str, cell: types.CellType, *, bound: bool) -> Place:
    def get() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not bound yet
            return None

    def put(value: Any) -> None:
        cell.cell_contents = value

    return Place(name, get, put, bound)


def _of_global(name: str, module: dict[str, Any], *, bound: bool) -> Place:
    def put(value: Any) -> None:
        module[name] = value

    return Place(name, lambda: module[name], put, bound)


def _is_state(place: Place, value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.nbytes <= MOST_BYTES and value.flags.writeable
    return place.bound or isinstance(value, CONTAINERS) or object_state.is_own(value)


def encode_all(
    callback: Any, encoder: encode.StateEncoder
) -> tuple[dict[str, Any], list[str]]:
    """The values by name, and a sentence for each that cannot be saved."""
    state: dict[str, Any] = {}
    told: list[str] = []
    for place in places(callback):
        value = place.get()
        if not _is_state(place, value):
            continue
        try:
            state[place.name] = encoder.encode(value)
        except encode.UnencodableError as error:
            if place.bound or object_state.is_own(value):
                told.append(
                    f"the callback {type(callback).__name__} changes {place.name},"
                    f" which holds {error} and cannot be saved"
                )
    return state, told


def decode_all(
    callback: Any, state: dict[str, Any], decoder: decode.StateDecoder
) -> None:
    """Give everything back, in place where it can be."""
    for place in places(callback):
        if place.name not in state:
            continue
        existing = place.get()
        value = decoder.decode(state[place.name], existing=existing)
        if value is not existing:
            place.put(value)
