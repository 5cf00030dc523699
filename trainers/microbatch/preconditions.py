"""The preconditions for working through a batch in slices."""

import re
from typing import Any

import keras

from trainers.backends import slicing
from trainers.backends.selected import backend
from trainers.backends.slices import batch_ops
from trainers.process import allocation_subject

_WRAPPED = "Exception encountered when calling"
"""How Keras begins, before the text of the exception itself."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\{\{[^}]*\}\}")
"""Bold type, and names of graph nodes."""


def obstacle(
    model: Any, batch: tuple[Any, Any, Any], *, own_step_too: bool = False
) -> str | None:
    """Why this model's batch cannot be sliced, as half a sentence; None if it can.

    ``batch`` is (x, y, sample weights). Builds the model where Keras has not yet.
    ``own_step_too``: a ``train_step`` of the script's own is no obstacle.
    """
    if backend.fit.has_own_train_step(model) and not own_step_too:
        return f"{type(model).__name__} has a train_step of its own"
    leaves = [leaf for one in batch for leaf in slicing.leaves(one)]
    reason = backend.slices.why_not_on_devices(model) or _unsliceable(leaves)
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


def refused_parts(error: Exception) -> str:
    """Why a model that raised ``error`` for a part of a batch cannot be given slices.

    An adjacency matrix, or a table that all samples share, is as long as the batch and is
    cut with it. Whole batches reach the model unchanged: what is wrong with them it says
    in training. Raises ``error`` itself where it is memory that ran out.
    """
    if allocation_subject.out_of_memory(error):
        raise error
    said = [line for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    own = [line for line in said if not line.startswith(_WRAPPED)] or said or [""]
    return (
        "the model cannot be given a part of a batch; an input that is not per sample,"
        " such as an adjacency matrix, would be a reason"
        f" ({type(error).__name__}: {own[0].strip()})"
    )


def _build(model: Any, x: Any) -> None:
    """Let Keras make the weights, where it left that to the first step."""
    if not model.built:
        model(batch_ops.tensors(slicing.cut(x, 0, 1)))


def _unsliceable(leaves: list[Any]) -> str | None:
    if any(backend.slices.is_sparse(leaf) for leaf in leaves):
        return "the batch holds sparse or ragged tensors"
    if not all(hasattr(leaf, "shape") and len(leaf.shape) for leaf in leaves):
        return "the batch holds something that is no tensor"
    samples = leaves[0].shape[0]
    other = [tuple(leaf.shape) for leaf in leaves if leaf.shape[0] != samples]
    if other:
        return f"a part of it, of shape {other[0]}, has another length: it is not per sample"
    return "it has one sample" if samples < 2 else None


def _input_batches(model: Any) -> list[int | None]:
    inputs = getattr(model, "inputs", None) or []
    return [tensor.shape[0] for tensor in keras.tree.flatten(inputs)]
