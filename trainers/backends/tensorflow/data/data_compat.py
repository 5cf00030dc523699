"""The private names of TensorFlow that looking into ``tf.data`` pipelines leans on.

| name | why |
| --- | --- |
| ``data.util.random_seed.get_seed`` | the seeds of a shuffle that was given none |
| ``Dataset._inputs``, ``_functions`` | the stages of a pipeline and what they call |
| ``DatasetToGraphV2``, ``DatasetFromGraph`` | a copy that shares no state |
| ``_VariantDataset`` | that copy as a dataset |
| ``compute_batch_size`` | what ``batch`` was asked for, behind stages that keep it |
| ``ResourceVariable`` | made as such, no strategy makes a copy for each replica of it |
| ``_batch_size`` of a stage | it makes the batches |
| ``_TensorDataset`` | arrays as Keras gave them to TensorFlow: not copied once more |
"""

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import random_seed
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework.config import is_op_determinism_enabled
from tensorflow.python.ops import gen_dataset_ops, gen_experimental_dataset_ops
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from trainers.backends.tensorflow.functions.operation_types import RANDOM, nodes

IGNORE_EXTERNAL_STATE = 1
"""Of ``DatasetToGraphV2``: functions with a state of their own are copied too."""

SHARED = {
    "ShuffleDatasetV3": (4, "DummySeedGenerator"),
    "ShuffleAndRepeatDatasetV2": (5, "DummySeedGenerator"),
    "RandomDatasetV2": (2, "DummySeedGenerator"),
    "CacheDatasetV2": (2, "DummyMemoryCache"),
}
"""Stage → which input is a resource that a copy would share, and what makes a new."""

NAMES: tuple[tuple[Any, str], ...] = (
    (random_seed, "get_seed"),
    (dataset_ops.DatasetV2, "_inputs"),
    (dataset_ops.DatasetV2, "_functions"),
    (dataset_ops, "_VariantDataset"),
    (gen_dataset_ops, "dataset_to_graph_v2"),
    (gen_experimental_dataset_ops, "dataset_from_graph"),
    (distribute, "compute_batch_size"),
)


def own_variable(value: Any, *, shape: Any) -> Any:
    """A variable on the CPU that is no part of training: inside the scope of a strategy,
    too, there is one of it."""
    with tf.device("CPU:0"):
        return ResourceVariable(value, shape=shape, trainable=False)


def replace_get_seed(replacement: Any) -> Any:
    """Let every dataset get its seeds from ``replacement``; returns the original."""
    original = random_seed.get_seed
    random_seed.get_seed = replacement
    return original


def is_eager_and_unseeded() -> bool:
    """Whether a random dataset that is made now without a seed would be random."""
    return eager_context.executing_eagerly() and eager_context.global_seed() is None


def dataset_class() -> type:
    """The class whose methods every dataset has."""
    return dataset_ops.DatasetV2


def inputs(stage: Any) -> list[Any]:
    """The datasets that ``stage`` takes its elements from."""
    return list(stage._inputs()) if hasattr(stage, "_inputs") else []


def tensors_of(stage: Any) -> list[Any]:
    """Those that ``stage`` was made of, where it hands out tensors and their slices and is
    not made within a graph; of ragged and sparse ones only what can be read."""
    held = getattr(stage, "_tensors", ())
    return [
        one
        for one in held
        if hasattr(one, "_numpy") and one.dtype not in (tf.variant, tf.resource)
    ]


def repetitions(stage: Any) -> int:
    """How often a repeating stage goes through its input; -1: for ever."""
    return int(stage._count)


def makes_batches(stage: Any) -> bool:
    """Whether ``stage`` makes the batches."""
    return hasattr(stage, "_batch_size")


def buffer_size(stage: Any) -> int:
    """Elements that a shuffle or a prefetch holds; -1: TensorFlow decides, or (of a
    shuffle) all that there are."""
    return int(stage._buffer_size)


def caches_in_file(stage: Any) -> bool:
    """Whether a cache keeps its elements in a file."""
    return bool(stage._filename.numpy())


def parallel_calls(stage: Any) -> int | None:
    """Calls of its function at once; -1: TensorFlow decides; None: one after another."""
    found = getattr(stage, "_num_parallel_calls", None)
    return None if found is None else int(found)


def batch_size(dataset: Any) -> int | None:
    """Samples in a whole batch of ``dataset``, as its stages say; None: they do not."""
    try:
        size = int(distribute.compute_batch_size(dataset))
    except (tf.errors.OpError, IndexError):  # the latter where a tensor is a scalar
        return None
    return size if size > 0 else None


def is_fused(stage: Any) -> bool:
    """Whether TensorFlow makes one stage of the repetition ``stage`` and a shuffle."""
    below = inputs(stage)[0]
    while type(below).__name__ == "_OptionsDataset":
        below = inputs(below)[0]
    return type(below).__name__ == "_ShuffleDataset" and _fuses(stage)


def _fuses(dataset: Any) -> bool:
    asked = dataset.options().experimental_optimization
    if asked.shuffle_and_repeat_fusion is not None:
        return bool(asked.shuffle_and_repeat_fusion)
    return asked.apply_default_optimizations is not False


def stages(dataset: Any) -> Iterator[Any]:
    """The datasets that ``dataset`` is made of, itself first."""
    waiting = [dataset]
    while waiting:
        stage = waiting.pop()
        yield stage
        waiting += inputs(stage)


def whole_arrays(dataset: Any) -> Any | None:
    """The stage of Keras' pipeline that holds the arrays as its one element; or None."""
    for stage in stages(dataset):
        if type(stage).__name__ == "_TensorDataset":
            return stage
    return None


def _nodes(stage: Any) -> Iterator[Any]:
    """All operations in the functions that ``stage`` itself calls."""
    for wrapper in stage._functions() if hasattr(stage, "_functions") else ():
        yield from nodes(wrapper.function.graph.as_graph_def())


def operations(stage: Any) -> set[str]:
    """Types of all operations in the functions that ``stage`` itself calls."""
    return {node.op for node in _nodes(stage)}


def draws_without_seed(stage: Any) -> bool:
    """Whether a function that ``stage`` calls has a random operation without a seed."""
    return any(
        node.op in RANDOM and not node.attr["seed"].i and not node.attr["seed2"].i
        for node in _nodes(stage)
    )


def seeds(stage: Any) -> tuple[int, int] | None:
    """The seeds of a stage that has any; zeros: none were given."""
    one, two = getattr(stage, "_seed", None), getattr(stage, "_seed2", None)
    return None if one is None or two is None else (int(one), int(two))


def is_mixed_anew(stage: Any) -> bool:
    """Whether ``stage`` yields something else each time it is begun."""
    shuffles = "shuffle" in type(stage).__name__.lower()
    return shuffles or bool(getattr(stage, "_rerandomize", False))


def calls_in_parallel(stage: Any) -> bool:
    """Whether ``stage`` runs its functions side by side."""
    return getattr(stage, "_num_parallel_calls", None) is not None


def _unchanged(_graph: Any) -> None:
    """A copy that is none but that."""


def parallel_maps(graph: Any) -> None:
    """Let every ``map`` in the ``graph`` of a dataset make its calls side by side, in order."""
    many = graph.node.add(op="Const", name="trainwarden_calls")
    many.attr["dtype"].type = tf.int64.as_datatype_enum
    tensor = tf.make_tensor_proto(tf.data.AUTOTUNE, tf.int64)
    many.attr["value"].tensor.CopyFrom(tensor)
    for node in graph.node:
        if node.op == "MapDataset":
            node.op = "ParallelMapDatasetV2"
            node.input.append(many.name)
            node.attr["deterministic"].s = b"true"
            node.attr.pop("force_synchronous", None)


def copy(dataset: Any, *, change: Callable[[Any], None] = _unchanged) -> Any:
    """A dataset that yields the same and shares neither shuffling nor caches; ``change`` is
    called with its graph before it is made.

    Raises:
        tf.errors.OpError, ValueError: a pipeline that TensorFlow cannot write down.
    """
    graph = written(dataset)
    change(graph)
    return made_of(graph, dataset.element_spec)


def written(dataset: Any) -> Any:
    """The graph of a dataset that yields the same and shares neither shuffling nor caches.

    Raises tf.errors.OpError: TensorFlow cannot write it down.
    """
    found = gen_dataset_ops.dataset_to_graph_v2(
        dataset._variant_tensor, external_state_policy=IGNORE_EXTERNAL_STATE
    )
    graph = graph_pb2.GraphDef.FromString(found.numpy())
    by_name = {node.name: node for node in graph.node}
    for node in graph.node:
        if node.op in SHARED:
            index, maker = SHARED[node.op]
            resource = by_name[node.input[index]]
            resource.op = maker
            resource.ClearField("attr")
            del resource.input[:]
    return graph


def made_of(graph: Any, element_spec: Any) -> Any:
    """The dataset of a ``graph``. Raises tf.errors.OpError: it is none."""
    variant = gen_experimental_dataset_ops.dataset_from_graph(graph.SerializeToString())
    return dataset_ops._VariantDataset(variant, element_spec)


__all__ = ["is_op_determinism_enabled"]
