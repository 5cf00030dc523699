"""Whether the batch of a model can be worked through in slices at all."""

from typing import Any

import keras
import tensorflow as tf

from trainers.backends import slicing
from trainers.backends.tensorflow import batch_ops, fit_compat


def obstacle(
    model: Any, batch: tuple[Any, Any, Any], *, own_step_too: bool = False
) -> str | None:
    """Why this model's batch cannot be sliced, as half a sentence; None if it can.

    ``batch`` is (x, y, sample weights). Builds the model where Keras has not yet.
    ``own_step_too``: a ``train_step`` of the script's own is no obstacle.
    """
    if fit_compat.has_own_train_step(model) and not own_step_too:
        return f"{type(model).__name__} has a train_step of its own"
    if model.distribute_strategy.num_replicas_in_sync > 1:
        return "training is distributed over several devices"
    leaves = [leaf for one in batch for leaf in slicing.leaves(one)]
    reason = _unsliceable(leaves)
    if reason is not None:
        return reason
    if not own_step_too:
        _build(model, batch[0])
        if not model.trainable_weights:
            return "the model has no trainable weights"
    fixed = [shape for shape in _input_batches(model) if shape is not None]
    if fixed:
        return f"the model was built for batches of exactly {fixed[0]}"
    return None


def _build(model: Any, x: Any) -> None:
    """Let Keras make the weights, where it left that to the first step."""
    if not model.built:
        model(batch_ops.tensors(slicing.cut(x, 0, 1)))


def _unsliceable(leaves: list[Any]) -> str | None:
    if any(isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)) for leaf in leaves):
        return "the batch holds sparse or ragged tensors"
    if not all(hasattr(leaf, "shape") and len(leaf.shape) for leaf in leaves):
        return "the batch holds something that is no tensor"
    return "it has one sample" if leaves[0].shape[0] < 2 else None


def _input_batches(model: Any) -> list[int | None]:
    inputs = getattr(model, "inputs", None) or []
    return [tensor.shape[0] for tensor in keras.tree.flatten(inputs)]
