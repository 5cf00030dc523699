"""The preconditions for working through a batch in slices."""

from typing import Any

import tensorflow as tf

from trainers.backends import keras_losses, slicing
from trainers.backends.tensorflow import fit_compat
from trainers.backends.tensorflow.slices import batch_ops
from trainers.microbatch.obstacles import built_for_one_size, not_per_sample


def obstacle(
    model: Any, batch: tuple[Any, Any, Any], *, own_step_too: bool = False
) -> str | None:
    """Why this model's batch cannot be sliced, as half a sentence; None if it can.

    ``batch`` is (x, y, sample weights). Builds the model where Keras has not yet.
    ``own_step_too``: a ``train_step`` of the script's own is no obstacle.
    """
    if fit_compat.has_own_train_step(model) and not own_step_too:
        return f"{type(model).__name__} has a train_step of its own"
    leaves = [leaf for one in batch for leaf in slicing.leaves(one)]
    reason = _obstacle_on_replicas(model) or _unsliceable(leaves)
    if reason is not None:
        return reason
    if not own_step_too:
        _build(model, batch[0])
        if not model.trainable_weights:
            return "the model has no trainable weights"
    return built_for_one_size(model)


def _obstacle_on_replicas(model: Any) -> str | None:
    """Devices work through their slices without waiting for each other."""
    if tf.distribute.in_cross_replica_context():
        return (
            "fit is called inside the scope of its strategy: call it after that block"
        )
    if fit_compat.replicas_of(model) == 1:
        return None
    if fit_compat.has_own_train_step(model):
        return (
            f"{type(model).__name__} has a train_step of its own, and several devices"
            " cannot make an update for each part of a batch"
        )
    for layer in keras_losses.all_layers(model):
        if getattr(layer, "synchronized", False):
            return f"the layer {layer.name} adds up over all devices within a step"
    return None


def _build(model: Any, x: Any) -> None:
    """Let Keras make the weights, where it left that to the first step."""
    if not model.built:
        model(batch_ops.tensors(slicing.cut(x, 0, 1)))


def _unsliceable(leaves: list[Any]) -> str | None:
    if any(isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)) for leaf in leaves):
        return "the batch holds sparse or ragged tensors"
    return not_per_sample(leaves)
