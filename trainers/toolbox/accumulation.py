"""Gradients of one batch, computed in slices: memory of a slice, the update of the batch.

When: a step of one's own runs out of memory for its activations. A ``fit`` needs none of
this under ``trainwarden run``, which slices by itself, and neither does a loop that takes
its slices from ``trainers.session``.

Traps, all avoided here: slices of unlike size count by their samples, not alike; what is
left over is the last slice, and not dropped; the optimizer steps once a batch, and not once
in so many steps of an epoch; slices come one after another (in a graph TensorFlow would
work at several at once, and save nothing). Not avoidable: BatchNormalization sees slices,
and its averages move once for each; a loss that compares samples with each other (a
contrastive one) is another loss in slices.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf


def gradients_in_slices(
    loss_of: Callable[..., Any],
    variables: Sequence[Any],
    batch: Sequence[Any],
    *,
    slices: int,
) -> tuple[Any, list[Any]]:
    """The loss of ``batch`` and its gradients, as of the whole, but for rounding.

    ``loss_of(*part)`` is the mean loss of the samples in ``part``, a scalar; ``batch`` are
    tensors of (samples, …), cut alike; ``variables`` what is differentiated by. Gradients
    are dense, one a variable, zeros where ``loss_of`` does not depend on it. A batch with
    fewer samples than ``slices`` is cut into single samples. Inside a ``tf.function``
    that XLA compiles the number of samples must be known when it is traced.

    Raises ValueError where ``slices`` is less than one, or there is no tensor.
    """
    tensors = [tf.convert_to_tensor(one) for one in batch]
    if slices < 1 or not tensors:
        message = f"expected one slice or more, and a tensor: {slices}, {len(tensors)}"
        raise ValueError(message)
    given = [one.value if isinstance(one, keras.Variable) else one for one in variables]
    samples = tensors[0].shape[0]
    if samples is None:
        return _of_unknown(loss_of, given, tensors, slices)
    return _of_known(loss_of, given, tensors, slices)


def _of_known(
    loss_of: Callable[..., Any], variables: list[Any], batch: list[Any], slices: int
) -> tuple[Any, list[Any]]:
    """With the sizes of all slices known to XLA: whole ones in a loop, then the rest."""
    samples = int(batch[0].shape[0])
    size = -(-samples // slices)
    whole = samples // size

    def one(number: Any) -> list[Any]:
        begin = number * size
        return [_cut(tensor, begin, size) for tensor in batch]

    totals = _looped(loss_of, variables, one, whole, lambda _part: size / samples)
    if rest := samples - whole * size:
        part = [tensor[samples - rest :] for tensor in batch]
        found = _differentiated(loss_of, variables, part, rest / samples)
        totals = [total + more for total, more in zip(totals, found, strict=True)]
    return totals[0], totals[1:]


def _of_unknown(
    loss_of: Callable[..., Any], variables: list[Any], batch: list[Any], slices: int
) -> tuple[Any, list[Any]]:
    samples = tf.shape(batch[0])[0]
    size = -(-samples // slices)
    count = -(-samples // size)

    def one(number: Any) -> list[Any]:
        return [tensor[number * size : (number + 1) * size] for tensor in batch]

    def share(part: list[Any]) -> Any:
        return tf.shape(part[0])[0] / samples

    totals = _looped(loss_of, variables, one, count, share)
    return totals[0], totals[1:]


def _cut(tensor: Any, begin: Any, size: int) -> Any:
    starts = tf.concat([[begin], tf.zeros([tensor.shape.rank - 1], tf.int32)], 0)
    part = tf.slice(tensor, starts, [size, *[-1] * (tensor.shape.rank - 1)])
    return tf.ensure_shape(part, [size, *tensor.shape[1:]])


def _looped(
    loss_of: Callable[..., Any],
    variables: list[Any],
    part_of: Callable[[Any], list[Any]],
    count: Any,
    share_of: Callable[[list[Any]], Any],
) -> list[Any]:
    """The sums over ``count`` parts: of the loss, then of each gradient."""

    def body(number: Any, *totals: Any) -> tuple[Any, ...]:
        part = part_of(number)
        found = _differentiated(loss_of, variables, part, share_of(part))
        added = [total + more for total, more in zip(totals, found, strict=True)]
        return (number + 1, *added)

    start = [tf.zeros([], tf.float32), *(tf.zeros_like(one) for one in variables)]
    _, *totals = tf.while_loop(
        lambda number, *_totals: number < count,
        body,
        [tf.constant(0), *start],
        parallel_iterations=1,
    )
    return list(totals)


def _differentiated(
    loss_of: Callable[..., Any], variables: list[Any], part: list[Any], share: Any
) -> list[Any]:
    """The loss of ``part`` and its gradients, by its share of the batch."""
    with tf.GradientTape() as tape:
        loss = tf.cast(loss_of(*part), tf.float32) * tf.cast(share, tf.float32)
    gradients = tape.gradient(
        loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    return [loss, *(tf.convert_to_tensor(one) for one in gradients)]
