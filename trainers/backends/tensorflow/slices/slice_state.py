"""The state of a sliced train step, from slice to slice: the variables of its loop."""

from typing import Any

import keras
import tensorflow as tf

from trainers.backends import keras_losses, slicing


class Cuts:
    """The slices of one batch, by index."""

    def __init__(self, batch: Any, size: tf.Variable) -> None:
        """``batch``: (x, y, sample weights); ``size``: samples a slice."""
        self.batch = batch
        self.total = tf.shape(slicing.leaves(batch[0])[0])[0]
        self._size = tf.minimum(tf.maximum(tf.convert_to_tensor(size), 1), self.total)
        self.count = (self.total + self._size - 1) // self._size

    def bounds(self, index: Any) -> tuple[Any, Any]:
        """First sample of the slice, and the one after its last."""
        start = index * self._size
        return start, tf.minimum(start + self._size, self.total)

    def slice(self, index: Any) -> tuple[Any, Any, Any, tuple[Any, Any]]:
        """x, y, sample weights; the slice's share of the batch (float32), and its first
        sample."""
        start, stop = self.bounds(index)
        part = tf.cast(stop - start, tf.float32) / tf.cast(self.total, tf.float32)
        x, y, weight = (slicing.cut(one, start, stop) for one in self.batch)
        return x, y, weight, (part, start)


class StackedOutputs:
    """Predictions of all slices: tensors (and masks) put together at the end."""

    def __init__(self, first: Any | None, count: Any) -> None:
        self._first = first
        self._count = count

    def first(self) -> list[tf.TensorArray]:
        """The arrays, with the first slice's predictions in them."""
        if self._first is None:
            return []
        arrays = [_array(leaf, self._count) for leaf in _tensors(self._first)]
        return self.write(arrays, 0, self._first)

    def write(self, arrays: list[tf.TensorArray], index: Any, flat: Any) -> Any:
        """The arrays with one more slice's predictions."""
        if flat is None:
            return arrays
        return [
            array.write(index, leaf)
            for array, leaf in zip(arrays, _tensors(flat), strict=True)
        ]

    def whole(self, arrays: list[tf.TensorArray], structure: Any) -> Any:
        """The predictions of the whole batch, in the ``structure`` of the model's."""
        if self._first is None:
            return None
        flat = iter([array.concat() for array in arrays])
        leaves = [next(flat) for _ in self._first["leaves"]]
        for leaf, logits in zip(leaves, self._first["logits"], strict=True):
            if logits is not None:
                keras_losses.set_logits(leaf, next(flat))
        for leaf, mask in zip(leaves, self._first["masks"], strict=True):
            if mask is not None:
                keras_losses.set_mask(leaf, next(flat))
        return keras.tree.pack_sequence_as(structure, leaves)


class Sums:
    """Gradients of all slices: dense ones added up, rows of embeddings put together.

    The rows stay apart, repeated ones too, because the optimizers of Keras 3 square
    them one by one: added up first, Adam's second moments would differ.
    """

    def __init__(self, first: list[Any], count: Any) -> None:
        self._gradients = first
        self._count = count

    def first(self) -> list[Any]:
        """The state of the loop after the first slice."""
        return [
            self._rows(gradient)
            if isinstance(gradient, tf.IndexedSlices)
            else _wide(gradient)
            for gradient in self._gradients
        ]

    def add(self, state: list[Any], index: Any, gradients: list[Any]) -> list[Any]:
        """The state with one more slice's gradients."""
        return [
            self._add(so_far, index, gradient)
            for so_far, gradient in zip(state, gradients, strict=True)
        ]

    def whole(self, state: list[Any]) -> list[Any]:
        """The gradients of the batch."""
        return [
            tf.IndexedSlices(so_far[0].concat(), so_far[1].concat(), first.dense_shape)
            if isinstance(first, tf.IndexedSlices)
            else so_far
            for first, so_far in zip(self._gradients, state, strict=True)
        ]

    def _rows(self, gradient: tf.IndexedSlices) -> list[tf.TensorArray]:
        return [
            _array(part, self._count).write(0, part)
            for part in (_wide(gradient.values), gradient.indices)
        ]

    def _add(self, so_far: Any, index: Any, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.ensure_shape(so_far + _wide(gradient), so_far.shape)
        values, indices = so_far
        return [
            values.write(index, _wide(gradient.values)),
            indices.write(index, gradient.indices),
        ]


def _array(like: Any, count: Any) -> tf.TensorArray:
    """Room for ``count`` tensors that differ from ``like`` in the first dimension."""
    return tf.TensorArray(
        like.dtype, size=count, infer_shape=False, element_shape=[None, *like.shape[1:]]
    )


def differentiable(flat: dict[str, Any]) -> list[Any]:
    """The tensors among kept predictions that a loss may be differentiated by."""
    return [*flat["leaves"], *(one for one in flat["logits"] if one is not None)]


def _tensors(flat: dict[str, Any]) -> list[Any]:
    masks = [mask for mask in flat["masks"] if mask is not None]
    return [*differentiable(flat), *masks]


def _wide(gradient: Any) -> Any:
    """Sums of half-precision gradients are kept in float32."""
    half = gradient.dtype in {tf.float16, tf.bfloat16}
    return tf.cast(gradient, tf.float32) if half else gradient
