"""The preconditions for working through a batch in slices."""

from typing import Any

from trainers.backends import slicing
from trainers.backends.selected import backend
from trainers.backends.slices import batch_ops
from trainers.microbatch.obstacles import (
    built_for_one_size,
    not_per_sample,
    steps_otherwise,
)


def obstacle(
    model: Any, batch: tuple[Any, Any, Any], *, own_step_too: bool = False
) -> str | None:
    """Why this model's batch cannot be sliced, as half a sentence; None if it can.

    ``batch`` is (x, y, sample weights). Builds the model where Keras has not yet.
    ``own_step_too``: a ``train_step`` of the script's own is no obstacle.
    """
    if backend.fit.has_own_train_step(model) and not own_step_too:
        return f"{type(model).__name__} has a train_step of its own"
    if why := steps_otherwise(model):
        return why
    leaves = [leaf for one in batch for leaf in slicing.leaves(one)]
    reason = backend.slices.why_not_on_devices(model) or _unsliceable(leaves)
    if reason is not None:
        return reason
    if not own_step_too:
        _build(model, batch[0])
        if not model.trainable_weights:
            return "the model has no trainable weights"
    return built_for_one_size(model)


def _build(model: Any, x: Any) -> None:
    """Let Keras make the weights, where it left that to the first step."""
    if not model.built:
        model(batch_ops.tensors(slicing.cut(x, 0, 1)))


def _unsliceable(leaves: list[Any]) -> str | None:
    if any(backend.slices.is_sparse(leaf) for leaf in leaves):
        return "the batch holds sparse or ragged tensors"
    return not_per_sample(leaves)
