"""Gradients of one batch, computed in slices: memory of a slice, the update of the batch.

When: a step of one's own runs out of memory for its activations. A ``fit`` needs none of
this under ``trainwarden run``, which slices by itself, and neither does a loop that takes
its slices from ``trainers.session``.

Traps, all avoided here: slices of unlike size count by their samples, not alike; what is
left over is the last slice, and not dropped; the optimizer steps once a batch, and not once
in so many steps of an epoch; slices come one after another (in a graph TensorFlow would
work at several at once, and save nothing); gradients in half precision are added up in
float32.

To be seen to: a loss that divides by something other than the number of samples (by tokens
that a mask leaves, by the sum of sample weights) needs ``weight_of``, and says nothing
without it; so it is with a sum, which has to be divided by the samples of the slice. A loss
scale is put on within ``loss_of``. It needs no ``tf.GradientTape`` around it: outside of a
graph that one keeps what all slices compute, which is more than the whole batch takes.

On a CPU leave XLA off for a step with convolutions: those within a loop take many times as
long there (``make bench-toolbox``). What ``trainwarden run`` slices has no such loop.

Not avoidable: BatchNormalization sees slices, and its averages move once for each; Dropout
draws a mask for each slice, other ones than for the whole; a loss that compares samples with
each other (a contrastive one) is another loss in slices.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainers.toolbox import batch_tensors

HALVES = (tf.float16, tf.bfloat16)


def gradients_in_slices(
    loss_of: Callable[..., Any],
    variables: Sequence[Any],
    batch: Sequence[Any],
    *,
    slices: int,
    weight_of: Callable[..., Any] | None = None,
) -> tuple[Any, list[Any]]:
    """The loss of ``batch`` and its gradients, as of the whole, but for rounding::

        def loss_of(x, y):
            return loss(y, model(x, training=True))

        value, gradients = gradients_in_slices(
            loss_of, model.trainable_variables, (x, y), slices=4
        )
        optimizer.apply(gradients, model.trainable_variables)

    ``loss_of(*part)`` is the mean loss of the samples in ``part``, a scalar; ``batch`` is
    what it takes: tensors of (samples, …), cut alike, or dicts and tuples of such; None
    stays None. ``variables`` are what is differentiated by. Where the mean is not over
    samples, ``weight_of(*part)`` is what it divides by, a scalar: for a mean over tokens
    that are not 0 ``lambda x, y: tf.math.count_nonzero(x)``.

    Gradients are dense, one a variable, zeros where ``loss_of`` does not depend on it. A
    batch with fewer samples than ``slices`` is cut into single samples. Inside a
    ``tf.function`` that XLA compiles the number of samples must be known when it is traced.

    Raises ValueError or TypeError, saying what to give, where ``slices`` is no number from
    1, a tensor cannot be cut as the others are, or there is nothing to differentiate.
    """
    _check_called(loss_of=loss_of, weight_of=weight_of or loss_of)
    count = _number_of(slices)
    tensors, packed = batch_tensors.leaves(batch)
    given = _variables(variables)
    sliced = SlicedLoss(lambda *part: loss_of(*packed(part)), given)
    samples = batch_tensors.samples_of(tensors)
    weight = weight_of and (lambda *part: weight_of(*packed(part)))
    shares = _shares(weight, tensors, sliced.dtype)
    worked = _of_known if isinstance(samples, int) else _of_unknown
    return sliced.finished(worked(sliced, tensors, samples, count, shares))


class SlicedLoss:
    """A loss that is differentiated part by part, and the sums of what was found."""

    def __init__(self, loss_of: Callable[..., Any], variables: list[Any]) -> None:
        self.loss_of = loss_of
        self.variables = variables
        wide = any(one.dtype == tf.float64 for one in variables)
        self.dtype = tf.float64 if wide else tf.float32
        """Of the loss, and of the shares that parts have."""
        self.reaches = False
        """Whether any part's loss depended on any variable."""

    def zeros(self) -> list[Any]:
        """Sums over no part: of the loss, then of each gradient."""
        sums = [tf.zeros(tf.shape(one), _wide(one.dtype)) for one in self.variables]
        return [tf.zeros([], self.dtype), *sums]

    def differentiated(self, part: list[Any], share: Any) -> list[Any]:
        """The loss of ``part`` and its gradients, by its share of the batch."""
        with tf.GradientTape() as tape:
            loss = _scalar(self.loss_of(*part))
            loss = tf.cast(loss, self.dtype) * tf.cast(share, self.dtype)
        found = tape.gradient(loss, self.variables)
        self.reaches = self.reaches or any(one is not None for one in found)
        # None in one slice, and not in another: a branch of the script's own.
        gradients = [
            tf.zeros(tf.shape(of), _wide(of.dtype))
            if one is None
            else tf.cast(tf.convert_to_tensor(one), _wide(of.dtype))
            for of, one in zip(self.variables, found, strict=True)
        ]
        return [loss, *gradients]

    def finished(self, totals: list[Any]) -> tuple[Any, list[Any]]:
        """The loss, and gradients of the types that their variables have."""
        if not self.reaches:
            message = (
                "the loss depends on none of the variables: compute it from them inside"
                " loss_of, with operations of TensorFlow or Keras alone"
            )
            raise ValueError(message)
        loss, *gradients = totals
        return loss, [
            tf.cast(one, of.dtype)
            for of, one in zip(self.variables, gradients, strict=True)
        ]


def _wide(dtype: Any) -> Any:
    """What gradients of ``dtype`` are added up in: small ones are lost in half precision."""
    return tf.float32 if dtype in HALVES else dtype


def _scalar(loss: Any) -> Any:
    if loss is None:
        message = "loss_of returned None: let it return the mean loss of the samples"
        raise TypeError(message)
    loss = tf.convert_to_tensor(loss)
    if loss.shape.rank or not loss.dtype.is_floating:
        message = (
            f"loss_of returned {loss.dtype.name} of shape {tuple(loss.shape)}: let it"
            " return one number, the mean loss of the samples (tf.reduce_mean)"
        )
        raise ValueError(message)
    return tf.ensure_shape(loss, [])


def _check_called(**functions: Any) -> None:
    for name, given in functions.items():
        if not callable(given):
            message = f"{name} is a {type(given).__name__}: give a function"
            raise TypeError(message)


def _number_of(slices: Any) -> int:
    try:
        count = operator.index(slices)
    except TypeError:
        count = 0
    if count < 1:
        message = f"slices is {slices!r}: give a whole number, 1 or more"
        raise ValueError(message)
    return count


def _variables(variables: Any) -> list[Any]:
    if not isinstance(variables, list | tuple):
        message = (
            f"variables is a {type(variables).__name__}: give a list of variables, as"
            " model.trainable_variables"
        )
        raise TypeError(message)
    if not variables:
        message = "there are no variables: build the model first, by calling it once"
        raise ValueError(message)
    return [one.value if isinstance(one, keras.Variable) else one for one in variables]


def _shares(
    weight_of: Callable[..., Any] | None, batch: list[Any], dtype: Any
) -> Callable[[list[Any]], Any]:
    """Which part of the batch's loss is that of some of its samples."""
    if weight_of is None:
        weight_of = _count
    whole = tf.cast(weight_of(*batch), dtype)
    return lambda part: tf.math.divide_no_nan(tf.cast(weight_of(*part), dtype), whole)


def _count(*part: Any) -> Any:
    known = part[0].shape[0]
    return tf.shape(part[0])[0] if known is None else known


def _of_known(
    loss: SlicedLoss,
    batch: list[Any],
    samples: int,
    slices: int,
    share_of: Callable[[list[Any]], Any],
) -> list[Any]:
    """With the sizes of all slices known to XLA: whole ones in a loop, then the rest."""
    size = -(-samples // slices)
    whole = samples // size

    def one(number: Any) -> list[Any]:
        begin = number * size
        return [_cut(tensor, begin, size) for tensor in batch]

    totals = _looped(loss, one, whole, share_of)
    if rest := samples - whole * size:
        part = [_cut(tensor, samples - rest, rest) for tensor in batch]
        found = loss.differentiated(part, share_of(part))
        totals = [total + more for total, more in zip(totals, found, strict=True)]
    return totals


def _of_unknown(
    loss: SlicedLoss,
    batch: list[Any],
    samples: Any,
    slices: int,
    share_of: Callable[[list[Any]], Any],
) -> list[Any]:
    size = -(-samples // slices)
    count = -(-samples // size)

    def one(number: Any) -> list[Any]:
        return [tensor[number * size : (number + 1) * size] for tensor in batch]

    return _looped(loss, one, count, share_of)


def _cut(tensor: Any, begin: Any, size: int) -> Any:
    starts = tf.concat([[begin], tf.zeros([tensor.shape.rank - 1], tf.int32)], 0)
    part = tf.slice(tensor, starts, [size, *[-1] * (tensor.shape.rank - 1)])
    return tf.ensure_shape(part, [size, *tensor.shape[1:]])


def _looped(
    loss: SlicedLoss,
    part_of: Callable[[Any], list[Any]],
    count: Any,
    share_of: Callable[[list[Any]], Any],
) -> list[Any]:
    """The sums over ``count`` parts: of the loss, then of each gradient."""

    def body(number: Any, *totals: Any) -> tuple[Any, ...]:
        part = part_of(number)
        found = loss.differentiated(part, share_of(part))
        added = [total + more for total, more in zip(totals, found, strict=True)]
        return (number + 1, *added)

    _, *totals = tf.while_loop(
        lambda number, *_totals: number < count,
        body,
        [tf.constant(0), *loss.zeros()],
        parallel_iterations=1,
    )
    return list(totals)
