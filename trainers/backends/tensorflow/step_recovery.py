"""Whether a process is whole after a step that failed, as far as TensorFlow can tell.

Nothing of this was tried on a GPU: there cuDNN is known to be unusable in a process that
has run out of memory. And where XLA compiled the step, buffers that were donated to it are
freed twice then: variables are NaN, or finite and wrong, before the process aborts.
"""

import math
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainers.backends.tensorflow import replicas
from trainers.backends.tensorflow.allocator import peak_readings
from trainers.backends.tensorflow.functions import operation_types, tracing

XLA = "_XlaMustCompile"
"""Attribute of what ``tf.function(jit_compile=True)`` was traced to."""
AUTO_CLUSTERING = "tf_xla_auto_jit"

ON_GPU = "it ran out of memory on a GPU, whose libraries do not outlive that"
BY_XLA = "XLA compiled the step, or a part of it"
EAGERLY = "the model runs eagerly"
REPLICATED = "it trains on several devices at once"
UNCOUNTED = "nobody counts what memory is in use"


def why_never(model: Any) -> str | None:
    """Why a ``fit`` of ``model`` cannot be made again in its process; None: it can."""
    return REPLICATED if replicas.strategy_of(model) is not None else None


def why_memory_in_doubt(model: Any) -> str | None:
    """Why memory may not be whole after a step of ``model`` that found none, in half a
    sentence; None: nothing speaks against it."""
    if peak_readings.device().startswith("GPU"):
        return ON_GPU
    if model.run_eagerly:
        return EAGERLY
    if model.jit_compile or _is_clustered() or any(_compiled_parts(model)):
        return BY_XLA
    return UNCOUNTED if memory_in_use() is None else None


def memory_in_use() -> int | None:
    """Bytes that the allocator has handed out now; None: it does not count them."""
    found = peak_readings.read()
    return None if found is None else found.current_bytes


def batch_bytes(element_spec: Any, batch: int | None) -> int:
    """What a batch of these specs takes, of ``batch`` samples where they do not say; what
    has no fixed size is left out."""
    specs = [one for one in tf.nest.flatten(element_spec) if hasattr(one, "dtype")]
    return sum(
        _bytes_of(one, batch or 1) for one in specs if one.shape.rank is not None
    )


def _bytes_of(spec: Any, batch: int) -> int:
    sizes = [batch if size is None else size for size in spec.shape]
    return int(math.prod(sizes) * max(spec.dtype.size, 0))


def _is_clustered() -> bool:
    asked = AUTO_CLUSTERING in os.environ.get("TF_XLA_FLAGS", "")
    return asked or bool(tf.config.optimizer.get_jit())


def _compiled_parts(model: Any) -> Iterator[bool]:
    """For each function and operation of the traced step, whether XLA compiles it."""
    for graph in tracing.traced_graphs(model):
        written = graph.as_graph_def()
        yield from (one.attr[XLA].b for one in written.library.function)
        yield from (one.attr[XLA].b for one in operation_types.nodes(written))
