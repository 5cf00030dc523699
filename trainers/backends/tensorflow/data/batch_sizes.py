"""The batch size of a pipeline, and the number of its samples.

The plan of slices needs the size of a batch before the first step: a step that runs out
of memory may be the first. Where shapes leave it open (``batch`` without
``drop_remainder`` does), TensorFlow is asked for the stage that makes the batches; where
that is not known either (batches from Python, or changed by a function), the size of
the first batch is told as it is drawn.
"""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat as compat


def batch_of(dataset: Any) -> int | None:
    """Samples in a whole batch of ``dataset``; None where nobody knows beforehand."""
    leaves = [
        leaf for leaf in tf.nest.flatten(dataset.element_spec) if leaf is not None
    ]
    shape = getattr(leaves[0], "shape", None) if leaves else None
    if shape is None or shape.rank == 0:
        return None
    if shape.rank is not None and shape[0] is not None:
        return int(shape[0])
    return compat.batch_size(dataset)


def samples_of(dataset: Any) -> int | None:
    """Samples in one pass, where the last batch may be short; None where unknown."""
    for stage in compat.stages(dataset):
        if compat.makes_batches(stage):
            samples = int(compat.inputs(stage)[0].cardinality())
            once = int(dataset.cardinality()) == int(stage.cardinality())
            return samples if once and samples >= 0 else None
    return None


def telling(dataset: Any, tell: Callable[[int], None]) -> Any:
    """``dataset``, whose batches call ``tell`` with their size as they are drawn.

    ``tell`` is a method. Its object is not kept alive: TensorFlow keeps the functions of
    Python that a pipeline calls for the life of the process.
    """
    leaf = _countable(tf.nest.flatten(dataset.element_spec))
    if leaf is None:
        return dataset
    whole = type(dataset.element_spec) is not tuple
    listener = weakref.WeakMethod(tell)

    def told(size: Any) -> Any:
        listening = listener()
        if listening is not None:
            listening(int(size))
        return np.int64(size)

    @tf.autograph.experimental.do_not_convert
    def pass_on(*element: Any) -> Any:
        tensor = tf.nest.flatten(element)[leaf]
        # Stateful, so that it is run although nobody takes what it returns.
        tf.numpy_function(told, [tf.shape(tensor, tf.int64)[0]], tf.int64)
        return element[0] if whole else element

    return dataset.map(pass_on)


def size_of(batch: Any) -> int | None:
    """Samples in a batch that was drawn: the first dimension of its first array."""
    for leaf in tf.nest.flatten(batch):
        shape: Any = getattr(leaf, "shape", ())
        if len(shape) > 0:
            return int(shape[0])
    return None


def _countable(specs: list[Any]) -> int | None:
    """The first leaf that is a plain tensor with samples in it."""
    for index, spec in enumerate(specs):
        if isinstance(spec, tf.TensorSpec) and spec.shape.rank != 0:
            return index
    return None
