"""Operations on a few samples of a batch: cut and repeat; and state put back."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from trainers.backends import keras_losses, slicing
from trainers.backends.slices.slice_spans import unlike_zero
from trainers.backends.slices.slice_support import SliceSupport

TILED_BYTES = 16 * 1024 * 1024
"""Predictions are repeated to meet the labels of the whole batch, up to this size."""


def tensors(structure: Any) -> Any:
    """``structure`` with tensors of the framework as leaves."""
    return slicing.map_leaves(keras.ops.convert_to_tensor, structure)


def length(structure: Any) -> int:
    """Samples in a structure of tensors (n, …)."""
    return int(slicing.leaves(structure)[0].shape[0])


def uneven(weight: Any) -> Any:
    """Weights that differ from sample to sample, so that dividing by them shows."""

    def one(leaf: Any) -> Any:
        shape = [-1] + [1] * (len(leaf.shape) - 1)
        factors = 1 + np.arange(leaf.shape[0], dtype=np.float32) % 7 / 7
        return leaf * keras.ops.convert_to_tensor(
            factors.reshape(shape), dtype=keras.backend.standardize_dtype(leaf.dtype)
        )

    return slicing.map_leaves(one, weight)


def tiled(y: Any, predictions: Any, weight: Any) -> tuple[Any, Any, Any]:
    """The few predictions repeated to meet the labels of (nearly) the whole batch."""
    few = length(predictions)
    size = sum(
        _bytes_of(leaf.dtype) * int(np.prod(leaf.shape[1:]))
        for leaf in slicing.leaves(predictions)
    )
    known = length(y) if slicing.leaves(y) else few
    samples = min(known, max(few, TILED_BYTES // max(1, size)))
    rows = keras.ops.convert_to_tensor(np.arange(samples, dtype=np.int32) % few)
    return (
        tensors(slicing.cut(y, 0, samples)),
        with_company(predictions, lambda leaf: keras.ops.take(leaf, rows, axis=0)),
        uneven(tensors(slicing.cut(weight, 0, samples))),
    )


def _bytes_of(dtype: Any) -> int:
    name = keras.backend.standardize_dtype(dtype)
    return 2 if name == "bfloat16" else np.dtype(name).itemsize


def cut(predictions: Any, start: int, stop: int) -> Any:
    """Some samples of predictions, with the masks and logits that go with them."""
    return with_company(predictions, lambda leaf: leaf[start:stop])


def with_company(predictions: Any, function: Any) -> Any:
    """``function`` of each prediction, and of the mask and logits that go with it."""

    def one(leaf: Any) -> Any:
        result = function(leaf)
        mask, logits = keras_losses.mask_of(leaf), keras_losses.logits_of(leaf)
        if mask is not None:
            keras_losses.set_mask(result, function(mask))
        if logits is not None:
            keras_losses.set_logits(result, function(logits))
        return result

    return slicing.map_leaves(one, predictions)


def changing(model: Any) -> list[Any]:
    """State that a forward pass may change: statistics, seeds; not that of metrics."""
    metrics = {id(one) for one in model.metrics_variables}
    return [one for one in model.non_trainable_variables if id(one) not in metrics]


def values_of(variables: Sequence[Any]) -> dict[int, Any]:
    """Copies of the values, by the variables' ``id``."""
    return {id(one): np.array(one.numpy()) for one in variables}


@contextlib.contextmanager
def none_zero(model: Any) -> Iterator[bool]:
    """Within, no weight or state that is a zero, or all zeros, is such; whether there is
    any.

    A gate, or a factor, that opens in training hides what comes after it until then.
    """
    metrics = {id(one) for one in model.metrics_variables}
    found = [
        one
        for one in model.variables
        if id(one) not in metrics and keras.backend.is_float_dtype(one.dtype)
        if not bool(keras.ops.any(keras.ops.not_equal(one, 0)))
    ]
    kept = values_of(found)
    for one in found:
        one.assign(unlike_zero(one.shape))
    try:
        yield bool(found)
    finally:
        for one in found:
            one.assign(kept[id(one)])


@contextlib.contextmanager
def state_kept(model: Any, support: SliceSupport) -> Iterator[None]:
    """Put back what calling the model and its metrics changes."""
    variables = [*model.non_trainable_variables, *model.metrics_variables]
    kept = values_of(variables)
    with support.kept(model), keras_losses.given_losses_kept(model):
        try:
            yield
        finally:
            for variable in variables:
                variable.assign(kept[id(variable)])
            for metric in model.metrics:
                if any(id(one) not in kept for one in metric.variables):
                    metric.reset_state()
