"""What compiled functions do, what they are given and what they return.

The private names that this leans on stand in the table of ``call_hooks``.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from trainers.backends.tensorflow import tensor_values
from trainers.backends.tensorflow.functions import operation_types, tracing
from trainers.backends.tensorflow.functions.call_hooks import (
    look,
    look_away,
    number_of,
    quiet,
    under_tape,
    variable,
)
from trainers.backends.tensorflow.tensor_values import is_tensor
from trainers.backends.tensorflow.tensor_values import view_of as array_of

HARMLESS = frozenset({
    "NoOp", "Placeholder", "Assert", "Print", "PrintV2", "ReadVariableOp", "VarHandleOp",
    "VarIsInitializedOp", "VariableShape", "StatefulPartitionedCall", "If", "While",
    "Case", "XlaLaunch", "LookupTableFindV2", "LookupTableSizeV2", "SummaryWriter",
    "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary",
    "WriteGraphSummary", "FlushSummaryWriter", "StackV2", "StackPushV2", "StackPopV2",
    "TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArraySizeV3",
    "TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArrayConcatV3",
    "TensorArrayGradV3", "TensorArrayCloseV3", "StackCloseV2",
})  # fmt: skip
"""Stateful operations that leave nothing behind but in variables, or what was printed."""
HARMLESS_BEGIN = ("Resource", "Assign", "CudnnRNN", "Rng", "Stateful")
"""And those whose types begin so: updates of variables, counter-based generators."""


def handle_of(one: Any) -> int | None:
    """The number of a variable, Keras' or TensorFlow's."""
    return number_of(vars(tensor_values.tensor_of(one)).get("_handle"))


# --- what a function was traced to ---------------------------------------------------


def traces(function: Any) -> int:
    """How often ``function`` was traced."""
    return int(function.experimental_get_tracing_count())


def trace(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Trace it for these arguments, as a call would; nothing is computed."""
    function.get_concrete_function(*args, **kwargs)


def changed(function: Any) -> list[int]:
    """Numbers of the variables that it changes, in the order in which it captures them."""
    graphs = [one.graph for one in function._list_all_concrete_functions()]
    return list(dict.fromkeys(_all_changed(graphs)))


def changed_by_model(model: Any, name: str) -> list[int]:
    """The same of ``model.test_function`` or ``predict_function``."""
    found = tracing.compiled_in(getattr(model, name))
    return list(dict.fromkeys(number for one in found for number in changed(one)))


def _all_changed(graphs: list[Any]) -> Iterator[int]:
    for graph in graphs:
        for handle in tracing.changed_in(graph):
            number = number_of(handle)
            if number is not None:
                yield number


def captured(function: Any) -> set[int]:
    """Numbers of all that it captures."""
    graphs = [one.graph for one in function._list_all_concrete_functions()]
    handles = [handle for graph in graphs for handle, _ in graph.captures]
    return {one for one in map(number_of, handles) if one is not None}


def on_replicas(function: Any) -> bool:
    """Whether what it captures is a copy that belongs to one of several replicas."""
    graphs = [one.graph for one in function._list_all_concrete_functions()]
    handles = [handle for graph in graphs for handle, _ in graph.captures]
    return any(hasattr(handle, "_distributed_container") for handle in handles)


def _operations(function: Any) -> set[str]:
    """Types of the operations of all its traces."""
    graphs = [one.graph for one in function._list_all_concrete_functions()]
    return {
        kind for one in graphs for kind in operation_types.in_graph(one.as_graph_def())
    }


def _leaves_something(operation: str) -> bool:
    """Whether that type of operation keeps a state elsewhere than in variables."""
    known = op_def_registry.get(operation)
    harmless = operation in HARMLESS or operation.startswith(HARMLESS_BEGIN)
    return known is not None and known.is_stateful and not harmless


def own_state(function: Any) -> tuple[set[str], set[str], set[str]]:
    """What it keeps elsewhere: by random operations, by Python, by others."""
    kept = {one for one in _operations(function) if _leaves_something(one)}
    by_random = kept & operation_types.RANDOM
    by_python = kept & operation_types.PYTHON
    return by_random, by_python, kept - by_random - by_python


# --- arguments and results -----------------------------------------------------------


def dtype_and_shape(tensor: Any) -> tuple[str, tuple[int, ...]]:
    """Of a tensor, an array or a variable."""
    return tf.as_dtype(tensor.dtype).name, tuple(tensor.shape)


def in_main_memory(tensor: Any) -> bool:
    """Whether it can be read without waiting for a device."""
    return "CPU" in tensor.backing_device


def tensor_of(array: Any) -> Any:
    """A tensor with these values."""
    return tf.constant(array)


__all__ = [
    "array_of",
    "captured",
    "changed",
    "changed_by_model",
    "dtype_and_shape",
    "handle_of",
    "in_main_memory",
    "is_tensor",
    "look",
    "look_away",
    "on_replicas",
    "own_state",
    "quiet",
    "tensor_of",
    "trace",
    "traces",
    "under_tape",
    "variable",
]
