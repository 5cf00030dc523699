"""The owners of memory: the model's variables, and the script's own containers.

The allocator's map knows sizes and addresses, not names (TensorFlow's wheels are built
without ``TENSORFLOW_MEM_DEBUG``). Variables are matched by the address of their value.
What a script keeps is found by following its own names: globals, locals of the frames
on the stack, attributes, closures, generators. Not by asking the garbage collector for
all containers: among those are tuples that somebody is still filling, and to look into
one of them is a segmentation fault.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

import numpy as np
import tensorflow as tf

from supervisor.wire.messages.memory_answer import (
    BATCH,
    MOST,
    HeldObject,
    Variable,
)
from trainers.backends.tensorflow import memory_compat, model_variables, tensor_values
from trainers.backends.tensorflow.allocator.native_ops import Ops
from trainers.backends.tensorflow.data import pipelines
from trainers.process.training_progress import RunningFit

NAMED = 8
"""So many containers are told of, the largest ones."""
NOTABLE_BYTES = 2**20
"""A container that keeps less is not told of."""
NOTABLE_BATCH_BYTES = 2**12
"""Smaller arrays are as large as others by chance."""
MOST_PLACED = 64
"""Tensors of one container whose places are told."""
MOST_OBJECTS = 500_000
MOST_SECONDS = 1.0
"""Where a search ends that finds no end."""

LIBRARIES = frozenset(
    {"builtins", "keras", "numpy", "supervisor", "tensorflow", "threading", "trainers"}
)
"""Objects of their classes are not looked into."""

Root = tuple[str, Any]
"""Where to begin: a name, and what it stands for."""


def variables_of(model: Any, ops: Ops | None) -> list[Variable]:
    """The variables that ``model`` trains with, the largest first."""
    found = [
        _variable(name, one, ops) for name, one in model_variables.variables(model)
    ]
    return sorted(found, key=lambda one: -one.bytes)[:MOST]


def _variable(name: str, variable: Any, ops: Ops | None) -> Variable:
    inner = tensor_values.tensor_of(variable)
    size = math.prod(inner.shape) * inner.dtype.size
    address = None
    if ops is not None and size:
        address = ops.address(memory_compat.value_of(inner))[0]
    return Variable(name, size, address)


def roots_of(frame: FrameType | None) -> list[Root]:
    """The script's globals, and the locals of its frames from ``frame`` outwards."""
    script = sys.modules["__main__"]
    found: list[Root] = [(f"__main__.{k}", v) for k, v in list(vars(script).items())]
    while frame is not None:
        if _is_the_scripts(frame.f_globals.get("__name__")):
            found += _locals_of(frame)
        frame = frame.f_back
    return found


def roots_of_traceback(trace: TracebackType | None) -> list[Root]:
    """... and of the frames that an exception came through."""
    found = roots_of(None)
    while trace is not None:
        if _is_the_scripts(trace.tb_frame.f_globals.get("__name__")):
            found += _locals_of(trace.tb_frame)
        trace = trace.tb_next
    return found


def roots_of_fit(run: RunningFit | None) -> list[Root]:
    """Its callbacks, and where its data come from."""
    if run is None:
        return []
    inside = list(_parts(run.data_adapter))
    ours = [value for value in inside if type(value).__module__.startswith("trainers.")]
    inside += [value for one in ours for value in _parts(one)]
    return [
        ("callbacks", run.callbacks),
        *(("data", value) for value in inside),
        *([] if run.pipeline is None else [("data", run.pipeline)]),
    ]


def batch_of(run: RunningFit | None) -> list[HeldObject]:
    """The arrays of a batch of its data, where their shapes are known."""
    pipeline = None if run is None else run.pipeline
    if run is None or pipeline is None or not pipelines.is_pipeline(pipeline):
        return []
    found: list[HeldObject] = []
    for spec in tf.nest.flatten(pipeline.element_spec):
        shape = list(getattr(spec, "shape", None) or [])
        if shape and shape[0] is None:
            shape[0] = run.batch
        if not shape or None in shape:
            continue
        size = math.prod(shape) * spec.dtype.size
        example = f"{spec.dtype.name} {tuple(shape)}"
        if size >= NOTABLE_BATCH_BYTES:
            found.append(HeldObject("a batch", BATCH, 1, size, example))
    return found


def _parts(value: Any) -> Iterator[Any]:
    """The values of its attributes."""
    yield from list(vars(value).values()) if hasattr(value, "__dict__") else ()


def _locals_of(frame: FrameType) -> list[Root]:
    if frame.f_locals is frame.f_globals:  # that of a module: named as globals
        return []
    owner = frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else ""
    return [(f"{owner}.{name}", value) for name, value in frame.f_locals.items()]


def _is_the_scripts(module: Any) -> bool:
    return str(module).partition(".")[0] not in LIBRARIES


@dataclass
class _Held:
    """What one name keeps."""

    where: str
    kind: str
    count: int = 0
    bytes: int = 0
    largest: int = -1
    example: str = ""
    tensors: list[Any] = field(default_factory=list[Any])

    def add(self, value: Any) -> None:
        """Count one more."""
        size = _bytes(value)
        self.count += 1
        self.bytes += size
        if size > self.largest:
            self.largest = size
            self.example = f"{value.dtype.name} {tuple(value.shape)}"
        if self.kind == "tensor" and len(self.tensors) < MOST_PLACED:
            self.tensors.append(value)

    def told(self, ops: Ops | None) -> HeldObject:
        """With the places of its tensors, where ``ops`` can tell them."""
        at = () if ops is None else tuple(ops.address(one)[0] for one in self.tensors)
        return HeldObject(
            self.where, self.kind, self.count, self.bytes, self.example, at
        )


def kept(roots: list[Root], ops: Ops | None = None) -> list[HeldObject]:
    """The names that keep most arrays and tensors; each of those counts once."""
    held: dict[tuple[str, str], _Held] = {}
    seen = {id(held)}
    waiting, until = deque(roots), time.thread_time() + MOST_SECONDS
    while waiting and len(seen) < MOST_OBJECTS and time.thread_time() < until:
        name, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = _kind(value)
        if kind is None:
            waiting.extend(_inside(name, value))
        else:
            held.setdefault((name, kind), _Held(name, kind)).add(value)
    found = sorted(held.values(), key=lambda one: -one.bytes)
    return [one.told(ops) for one in found[:NAMED] if one.bytes >= NOTABLE_BYTES]


def _inside(name: str, value: Any) -> Iterator[Root]:
    """What ``value`` refers to: what lies in a container goes by its name."""
    kind = type(value)
    if kind is dict:
        yield from ((name, one) for one in list(value.values()))
    elif kind in (list, tuple, deque, set, frozenset):
        yield from ((name, one) for one in list(value))
    elif issubclass(kind, pipelines.Pipeline):
        yield from ((name, one) for one in pipelines.tensors_of(value))
    elif kind is FunctionType:
        yield from _closure(value)
    elif kind is GeneratorType:
        frame = value.gi_frame
        yield from () if frame is None else _locals_of(frame)
    elif _is_the_scripts(kind.__module__) and not issubclass(kind, (type, ModuleType)):
        yield from _attributes(value, kind)


def _closure(function: FunctionType) -> Iterator[Root]:
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            yield f"{function.__qualname__}.{name}", cell.cell_contents
        except ValueError:  # empty
            continue


def _attributes(value: Any, kind: type) -> Iterator[Root]:
    """Those of the object and of its class."""
    try:
        own = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        own = {}
    for name, one in {**vars(kind), **own}.items():
        yield f"{kind.__name__}.{name}", one


def _kind(value: Any) -> str | None:
    kind = type(value)  # not isinstance: a proxy may do anything when asked its class
    if issubclass(kind, np.ndarray):
        return "array" if value.base is None else None  # a view keeps no memory
    eager = issubclass(kind, tf.Tensor) and hasattr(kind, "_numpy")
    return "tensor" if eager else None


def _bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    return math.prod(value.shape) * value.dtype.size
