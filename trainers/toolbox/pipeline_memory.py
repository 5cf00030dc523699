"""Which stage of a ``tf.data`` pipeline holds how much of the main memory.

When: the process grows though the model does not, or is killed by the kernel (the cause
``host_oom``). Most often it is one stage: a shuffle of images where names would do, a
``cache()`` of more than there is, arrays that TensorFlow copied.

Traps: a shuffle after ``batch`` holds batches; ``prefetch(tf.data.AUTOTUNE)`` holds what
TensorFlow thinks right; ``cache()`` before ``repeat`` and after what is random repeats the
same draws; ``from_tensor_slices`` of an array is a second copy, and on a GPU without
``tf.device("CPU")`` a copy in its memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat

READ = 4
"""Elements whose bytes are counted, where shapes do not tell."""
_STRING, _INLINE = 24, 22
"""Bytes of a string of TensorFlow (``tstring``), and how many characters fit into them."""
_BUFFERS = frozenset({"Shuffle", "Prefetch"})
_UNCHANGED = _BUFFERS | {"Cache", "Repeat", "Take", "Skip", "Shard", "Options"}
"""Stages whose elements are those of the one below."""
_BATCHES = frozenset({"Batch", "ParallelBatch"})
_WINDOWS = frozenset({"Window", "GroupByWindow"})
"""Stages that keep elements until a window is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """What a stage holds."""

    stage: str
    """As TensorFlow calls it: "Shuffle", "Prefetch", "MemoryCache", "TensorSlice", …"""
    elements: int | None
    """Held at once; None: TensorFlow decides, or nobody knows how many there are."""
    element_bytes: int
    """Of one of them."""
    with_data: bool
    """Whether it grows with the data set."""

    @property
    def nbytes(self) -> int | None:
        """Held at most; None: not known."""
        return None if self.elements is None else self.elements * self.element_bytes


def pipeline_memory(dataset: tf.data.Dataset) -> list[StageMemory]:
    """The stages of ``dataset`` that hold elements, from its source to its end.

    Where shapes are open a few elements are read, which calls the script's own functions
    and fills what shuffles are below. Stages that hold no more than the element in work
    (``map``, ``take``, ``repeat``, ``filter``) are left out; so is what a dataset holds
    that is made within a function (of ``interleave`` and ``flat_map``).

    Raises TypeError for anything but a ``tf.data.Dataset``.
    """
    if not isinstance(dataset, tf.data.Dataset):
        message = (
            f"dataset is a {type(dataset).__name__}: give a tf.data.Dataset. Arrays hold"
            " their nbytes, and generators what the script keeps for them"
        )
        raise TypeError(message)
    return [
        found
        for stage in reversed(list(data_compat.stages(dataset)))
        for found in _held(stage)
    ]


def _held(stage: Any) -> Iterator[StageMemory]:
    name = _name(stage)
    below = data_compat.inputs(stage)
    # A scalar is what a generator's stage is numbered by, and no data.
    if kept := [one for one in data_compat.tensors_of(stage) if one.shape.rank]:
        yield _stage(name, 1, sum(_nbytes(one) for one in kept), with_data=True)
    elif not below and not _has_tensors_alone(stage):  # ragged or sparse ones
        yield _stage(name, _count(stage), _bytes(stage), with_data=True)
    elif name == "Cache":
        if not data_compat.caches_in_file(stage):
            yield _stage(name, _count(below[0]), _bytes(below[0]), with_data=True)
    elif name in _BUFFERS:
        asked = data_compat.buffer_size(stage)
        yield _stage(name, _at_most(asked, below[0]), _bytes(below[0]))
    elif name in _WINDOWS:
        yield _stage(name, None, _bytes(below[0]))
    elif (calls := data_compat.parallel_calls(stage)) is not None:
        # Beside its calls an interleave keeps results of each, as many as TensorFlow likes.
        told = calls > 0 and name != "ParallelInterleave"
        yield _stage(name, calls if told else None, _bytes(stage))
    elif data_compat.makes_batches(stage):
        yield _stage(name, 1, _bytes(stage))


def _has_tensors_alone(stage: Any) -> bool:
    specs = tf.nest.flatten(stage.element_spec)
    return all(isinstance(one, tf.TensorSpec) for one in specs)


def _name(stage: Any) -> str:
    return type(stage).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


def _stage(
    name: str, elements: int | None, each: int, *, with_data: bool = False
) -> StageMemory:
    return StageMemory(
        stage=name, elements=elements, element_bytes=each, with_data=with_data
    )


def _at_most(asked: int, dataset: Any) -> int | None:
    """``asked`` elements, or all of ``dataset`` where these are fewer; None: asked for is
    what TensorFlow thinks right (AUTOTUNE)."""
    if asked < 0:
        return None
    there = _count(dataset)
    return asked if there is None else min(asked, there)


def _count(dataset: Any) -> int | None:
    found = int(dataset.cardinality())
    return found if found >= 0 else None


def _bytes(dataset: Any) -> int:
    """Of an element of ``dataset``: by its shapes, else by those it is made of, else the
    mean of the first few."""
    specs = tf.nest.flatten(dataset.element_spec)
    by_shape = [_by_shape(one) for one in specs]
    if all(one is not None for one in by_shape):
        return sum(one or 0 for one in by_shape)
    if _name(dataset) in _UNCHANGED:
        return _bytes(data_compat.inputs(dataset)[0])
    if _name(dataset) in _BATCHES and (size := data_compat.batch_size(dataset)):
        return size * _bytes(data_compat.inputs(dataset)[0])
    read = [
        sum(_nbytes(one) for one in tf.nest.flatten(element, expand_composites=True))
        for element in dataset.take(READ)
    ]
    return sum(read) // max(1, len(read))


def _by_shape(spec: Any) -> int | None:
    shape = getattr(spec, "shape", None)
    if not isinstance(spec, tf.TensorSpec) or spec.dtype == tf.string:
        return None
    if shape is None or not shape.is_fully_defined():
        return None
    return prod(shape.as_list()) * int(spec.dtype.size)


def _nbytes(tensor: Any) -> int:
    if tensor.dtype == tf.string:
        lengths = [len(one) for one in tf.reshape(tensor, [-1]).numpy()]
        return sum(_STRING + (one + 1 if one > _INLINE else 0) for one in lengths)
    return int(prod(tensor.shape.as_list())) * int(tensor.dtype.size)
