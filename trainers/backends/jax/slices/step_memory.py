"""The memory of a step, known before it runs: by XLA's own analysis of what it compiled.

A step's memory is its arguments (the state, a batch), its results as far as they do not
take the arguments' place, and one block for everything in between (XLA's buffer
assignment; ``compiled.memory_analysis()``). No step is run for it, but each size that is
asked for is compiled, which takes as long as compiling a step does.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from trainers.backends import slicing
from trainers.backends.slices.size_search import Room
from trainers.process import allocation_subject

BATCHES_AHEAD = 1
"""Keras puts so many batches on the device beside the one that is trained on."""


def room_of(model: Any, device: Any, *, limit_bytes: int | None) -> Room | None:
    """What there is on ``device``; ``limit_bytes``: what the supervisor set; None: nobody
    knows of a limit, as on a CPU."""
    stats = stats_of(device)
    known = [one for one in (limit_bytes, stats.get("bytes_limit")) if one]
    if not known:
        return None
    state = sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(_state(model))
    )
    beside = max(0, stats.get("bytes_in_use", 0) - state)
    return Room(limit_bytes=min(known), beside_bytes=beside)


def stats_of(device: Any) -> dict[str, int]:
    """What its allocator tells; empty: nothing."""
    try:
        return dict(device.memory_stats() or {})
    except RuntimeError:  # JAX's own errors are such
        return {}


def needed(
    model: Any, step: Callable[[Any, Any], Any], data: Any, samples: int
) -> int | None:
    """Bytes that ``step`` takes for the first ``samples`` of ``data``, with the state of
    the ``model`` and the batches; None: not even compiling it went through.
    """
    batch = slicing.map_leaves(lambda leaf: _shape(leaf, samples), data)
    jitted = jax.jit(step, donate_argnums=0)
    try:
        found = jitted.lower(_state(model), batch).compile().memory_analysis()
    except Exception as error:  # only that memory ran out is an answer
        if not allocation_subject.out_of_memory(error):
            raise
        return None
    results = found.output_size_in_bytes - found.alias_size_in_bytes
    one = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(batch))
    of_step = found.argument_size_in_bytes + results + found.temp_size_in_bytes
    return int(of_step + BATCHES_AHEAD * one)


def _state(model: Any) -> Any:
    """The state as a step takes it: shapes alone."""
    return tuple(
        [jax.ShapeDtypeStruct(one.value.shape, one.value.dtype) for one in group]
        for group in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    )


def _shape(leaf: Any, samples: int) -> Any:
    array = np.empty((), leaf.dtype)
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.ShapeDtypeStruct((samples, *leaf.shape[1:]), dtype)
