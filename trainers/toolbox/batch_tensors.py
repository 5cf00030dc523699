"""The tensors of a batch that is to be cut into slices, checked before it is."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def leaves(batch: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The tensors of ``batch``, and what makes of parts of them what ``loss_of`` takes.

    Raises TypeError or ValueError, saying what to give, where it is no sequence of tensors
    (or dicts and tuples of such) of one sample or more.
    """
    if not isinstance(batch, list | tuple):
        message = (
            f"batch is a {type(batch).__name__}: give a tuple of what loss_of takes, as"
            " (x, y)"
        )
        raise TypeError(message)
    whole = [_of_numbers(one) for one in batch]
    flat = tf.nest.flatten(whole)
    tensors = [_tensor(one) for one in flat if one is not None]
    if not tensors:
        message = "the batch has no tensor: give what loss_of takes, as (x, y)"
        raise ValueError(message)

    def packed(parts: Sequence[Any]) -> Any:
        rest = iter(parts)
        filled = [None if one is None else next(rest) for one in flat]
        return tf.nest.pack_sequence_as(whole, filled)

    return tensors, packed


def _of_numbers(value: Any) -> Any:
    """A list of numbers is an array; one of tensors is several inputs."""
    if isinstance(value, list) and not any(
        hasattr(one, "shape") or one is None for one in tf.nest.flatten(value)
    ):
        return tf.convert_to_tensor(value)
    return value


def _tensor(value: Any) -> Any:
    kind = type(value).__name__
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        message = f"the batch has a {kind}, which is not cut: make a dense tensor of it"
        raise TypeError(message)
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        message = f"the batch has a {kind}: give tensors or arrays of (samples, …)"
        raise TypeError(message) from error
    if tensor.shape.rank == 0:
        message = (
            "the batch has a scalar, which has no samples: leave it out, and let loss_of"
            " know it otherwise"
        )
        raise ValueError(message)
    if tensor.shape[0] == 0:
        message = "the batch has no samples: leave out an empty batch"
        raise ValueError(message)
    return tensor


def _same_in_graph(tensors: list[Any]) -> Any:
    """The number of samples, where it is known in the graph alone."""
    samples = tf.shape(tensors[0])[0]
    checks = [tf.debugging.assert_positive(samples, "the batch has no samples")]
    checks += [
        tf.debugging.assert_equal(
            tf.shape(one)[0], samples, "the tensors of the batch have unlike samples"
        )
        for one in tensors[1:]
    ]
    with tf.control_dependencies([one for one in checks if one is not None]):
        return tf.identity(samples)


def samples_of(tensors: list[Any]) -> Any:
    """How many samples all of ``tensors`` have: an int where it is known, else a tensor.

    Raises ValueError where they have unlike numbers; in a graph that does not know them,
    an InvalidArgumentError when it runs.
    """
    known = [one.shape[0] for one in tensors if one.shape[0] is not None]
    if len(set(known)) > 1:
        message = (
            f"the tensors of the batch have {', '.join(map(str, known))} samples: give"
            " all of them as many"
        )
        raise ValueError(message)
    return int(known[0]) if known else _same_in_graph(tensors)
