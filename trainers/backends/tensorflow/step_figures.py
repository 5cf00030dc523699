"""The figures of a step that TensorFlow keeps anyway: gaps, tracing, types.

| name | why |
| --- | --- |
| ``iterator_model_ops.get_model_proto`` | the gaps between the batches of a pipeline |
| ``tracing_compilation._graph_building_time_counter`` | the time that was spent on tracing |

Advice alone depends on them: where a version lacks one, nothing is said.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainers.backends.tensorflow.functions import operation_types, tracing

PRODUCTS = frozenset({
    "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "XlaDotV2",
    "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D",
    "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter",
})  # fmt: skip
"""Operations that most of a step's arithmetic is in."""


def _found(module: str, name: str) -> Any | None:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


_model_of = _found(
    "tensorflow.python.data.experimental.ops.iterator_model_ops", "get_model_proto"
)
_tracing_time = _found(
    "tensorflow.python.eager.polymorphic_function.tracing_compilation",
    "_graph_building_time_counter",
)


def gaps(batches: Any) -> Sequence[float] | None:
    """Seconds from each batch that the iterator handed out to the next one that was asked
    for, of the newest hundred, oldest first; None: it does not say."""
    if _model_of is None or not isinstance(batches, tf.data.Iterator):
        return None
    try:
        told = _model_of(batches)
    except (tf.errors.OpError, AttributeError, ValueError):
        return None  # a pipeline that is not tuned keeps none
    return [micros / 1e6 for micros in told.gap_times]


def tracing_clock() -> Callable[[], int] | None:
    """What tells the microseconds spent on tracing so far; None: nothing does."""
    if _tracing_time is None:
        return None
    clock: Callable[[], int] = _tracing_time.get_cell().value
    return clock


def float64_products(model: Any) -> tuple[int, int] | None:
    """Matrix products and convolutions of the traced step in float64, and in all; None:
    nothing is traced."""
    traced = map(_types_of_products, tracing.traced_graphs(model))
    # What the step calls is traced as well: the whole step has the most of them.
    kinds = max(traced, key=len, default=[])
    wide = sum(kind == tf.float64.as_datatype_enum for kind in kinds)
    return (wide, len(kinds)) if kinds else None


def _types_of_products(graph: Any) -> list[int]:
    nodes = operation_types.nodes(graph.as_graph_def())
    return [node.attr["T"].type for node in nodes if node.op in PRODUCTS]


def float64_is_meant() -> bool:
    """Whether the script set Keras' default type to it."""
    return keras.config.floatx() == "float64"


def wide_inputs(element_spec: Any, *, batch: int | None) -> tuple[int, tuple[str, ...]]:
    """Bytes of a batch that come in float64, and the shapes that they come in."""
    leaves = [one for one in tf.nest.flatten(element_spec) if _is_wide(one)]
    shapes = [[size or batch or 1 for size in one.shape] for one in leaves]
    sizes = [_product(shape) * tf.float64.size for shape in shapes]
    return sum(sizes), tuple("x".join(map(str, shape)) for shape in shapes)


def _is_wide(spec: Any) -> bool:
    known = isinstance(spec, tf.TensorSpec) and spec.shape.rank is not None
    return known and spec.dtype == tf.float64


def _product(sizes: Sequence[int]) -> int:
    whole = 1
    for size in sizes:
        whole *= size
    return whole


def computes_on_cpu() -> bool:
    """Whether a step is over when the next batch is asked for."""
    return not tf.config.list_logical_devices("GPU")
