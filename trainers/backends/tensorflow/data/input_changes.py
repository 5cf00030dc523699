"""Other ways to read the same data, put in the place of the script's for a trial.

What TensorFlow does by itself (2.21): after a last stage that has no thread of its own it
puts a ``prefetch`` that tunes itself, and it makes the calls of a ``map`` side by side where
the function has no state. So only what a script says itself is worth another try.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat as compat
from trainers.backends.tensorflow.functions.operation_types import (
    CHANGING,
    PYTHON,
    RANDOM,
)

BLOCK_BYTES = 2**18
"""About so much of an array is handed to a pipeline in one piece."""

_PREFETCH = "_PrefetchDataset"
_OPTIONS = "_OptionsDataset"
_MAP = "_MapDataset"
_cut: list[Any] = []
"""Stages that hand out what lies in main memory: by Python, but without a state."""


def read_ahead(dataset: Any) -> int | None:
    """Batches that ``dataset`` holds ready at its end: -1: as many as TensorFlow likes; None:
    its last stage has threads of its own, or TensorFlow adds what reads ahead."""
    last = _last(dataset)
    if type(last).__name__ == _PREFETCH:
        return compat.buffer_size(last)
    asked = dataset.options().experimental_optimization
    alone = asked.apply_default_optimizations is False or asked.inject_prefetch is False
    return 0 if alone and not compat.calls_in_parallel(last) else None


def with_read_ahead(dataset: Any, batches: int) -> Any:
    """``dataset``, whose last stage holds so many ``batches`` ready (-1: as many as
    TensorFlow likes), instead of those that it did."""
    last = _last(dataset)
    below = compat.inputs(last)[0] if type(last).__name__ == _PREFETCH else dataset
    return below.prefetch(batches).with_options(dataset.options())


def _last(dataset: Any) -> Any:
    """The last stage that does anything: options are none."""
    stage = dataset
    while type(stage).__name__ == _OPTIONS:
        stage = compat.inputs(stage)[0]
    return stage


def lone_maps(dataset: Any) -> int:
    """Stages whose calls TensorFlow makes one after another: those of a function that calls
    Python, or draws, or changes something. What lies within a function is not looked at."""
    return sum(
        type(stage).__name__ == _MAP and bool(compat.operations(stage) & _WITH_STATE)
        for stage in compat.stages(dataset)
    )


_WITH_STATE = PYTHON | RANDOM | CHANGING


def with_parallel_maps(dataset: Any) -> Any:
    """``dataset``, every ``map`` of which makes its calls side by side, in order.

    Raises ValueError: TensorFlow cannot write the pipeline down.
    """
    try:
        return compat.copy(dataset, change=compat.parallel_maps)
    except tf.errors.OpError as error:
        raise ValueError(str(error)) from error


# --- arrays that are cut in main memory ---


def cut_slices() -> None:
    """From now on ``from_tensor_slices`` of NumPy arrays hands out their rows from where they
    are, so that the framework gets no copy of them."""
    owner: Any = compat.dataset_class()
    original = owner.from_tensor_slices

    def from_tensor_slices(tensors: Any, name: Any = None) -> Any:
        leaves = tf.nest.flatten(tensors)
        if not leaves or not all(map(_has_rows, leaves)):
            return original(tensors, name=name)
        if len({len(one) for one in leaves}) != 1:
            return original(tensors, name=name)  # which says what is wrong with them
        return _rows_of(tensors, original)

    owner.from_tensor_slices = staticmethod(from_tensor_slices)


def slices_are_cut(dataset: Any) -> bool:
    """Whether rows of ``dataset`` come from main memory so."""
    stages = list(compat.stages(dataset))
    return any(stage is one for stage in stages for one in _cut)


def _has_rows(leaf: Any) -> bool:
    plain = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc"
    return bool(plain and leaf.ndim and leaf.nbytes and len(leaf))


def _rows_of(arrays: Any, slices: Callable[[Any], Any]) -> Any:
    leaves = tf.nest.flatten(arrays)
    count = len(leaves[0])
    block = max(1, BLOCK_BYTES * count // max(1, sum(one.nbytes for one in leaves)))

    @tf.autograph.experimental.do_not_convert
    def copied(*row: Any) -> Any:
        whole = row if len(row) > 1 or isinstance(arrays, tuple) else row[0]
        return tf.nest.map_structure(lambda one: tf.raw_ops.DeepCopy(x=one), whole)

    @tf.autograph.experimental.do_not_convert
    def block_at(start: Any) -> Any:
        rows = slices(cut(arrays, tf.range(start, tf.minimum(start + block, count))))
        return rows.map(copied)  # a row in a shuffle would keep its whole block

    found = tf.data.Dataset.range(0, count, block).flat_map(block_at)
    _cut.append(found)
    return found.apply(tf.data.experimental.assert_cardinality(count))


def cut(arrays: Any, indices: Any) -> Any:
    """In a pipeline: the rows ``indices`` of NumPy ``arrays``, from main memory."""
    leaves = tf.nest.flatten(arrays)

    def rows(chosen: np.ndarray) -> list[np.ndarray]:
        return [np.ascontiguousarray(one[chosen]) for one in leaves]

    found = tf.numpy_function(
        rows, [indices], [one.dtype for one in leaves], stateful=False
    )
    for one, leaf in zip(found, leaves, strict=True):
        one.set_shape([None, *leaf.shape[1:]])
    return tf.nest.pack_sequence_as(arrays, found)


# --- sizes ---


def halved(dataset: Any, *, sides: tuple[int, ...], rank: int) -> Any:
    """``dataset``, of whose inputs of so many dimensions every second row and column is left
    (``sides``: two), or the first half (one); targets of the same size are cut alike."""

    @tf.autograph.experimental.do_not_convert
    def half(*element: Any) -> Any:
        inputs = tf.nest.flatten(element[0])
        known = [one.shape for one in inputs if _is_input(one, rank)]

        def cut_one(one: Any) -> Any:
            mine = any(one is each for each in inputs)
            alike = _is_input(one, rank) if mine else _has_size(one, known, sides)
            return _half(one, sides) if alike else one

        return tf.nest.map_structure(cut_one, element)

    return dataset.map(half)


def _is_input(one: Any, rank: int) -> bool:
    return isinstance(one, tf.Tensor) and one.shape.rank == rank


def _has_size(one: Any, known: list[Any], sides: tuple[int, ...]) -> bool:
    """Whether a target or a weight is as large as an input, each sample of it."""
    if not isinstance(one, tf.Tensor) or (one.shape.rank or 0) <= max(sides):
        return False
    return any(all(one.shape[i] == shape[i] for i in sides) for shape in known)


def _half(one: Any, sides: tuple[int, ...]) -> Any:
    cuts = [slice(None)] * one.shape.rank
    for side in sides:
        is_image = len(sides) > 1
        half = (tf.shape(one)[side] + 1) // 2
        cuts[side] = slice(None, None, 2) if is_image else slice(None, half)
    return one[tuple(cuts)]
