"""NumPy arrays and tensors: taken up in the middle of a permutation.

The permutation of a pass stands in a variable that the pipeline reads. A function of
Python that hands it over would be kept by TensorFlow for the life of the process
(``_py_funcs_used_in_graph`` of the global graph), and with it the data and the model of
each ``fit``. The functions of the pipeline refer to nothing but that variable: what they
close over is in a cycle with the dataset, which waits for the garbage collector.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from typing_extensions import override

from trainers.backends import keras_compat, tf_data
from trainers.backends.tensorflow.data import data_compat
from trainers.data import data_fingerprint, sample_order
from trainers.data.data_source import DataSource

as_written = tf.autograph.experimental.do_not_convert
"""AutoGraph looks for modules by name: ours may be hidden behind the script's own."""


class ArraySource(DataSource):
    """NumPy arrays and tensors: our permutation, Keras' way of taking the slices."""

    kind = "arrays"
    moves_when_glanced_at = False

    def __init__(self, iterator: Any, *, seed: int, fit: int) -> None:
        super().__init__(iterator)
        self._seed, self._fit = seed, fit
        given = keras_compat.array_data(self.adapter)
        self._inputs, self._n, self._batch, self._shuffle = given
        self.samples = self._n
        self._repeated = self._keras_order() if self._shuffle else None
        self._spec = self.dataset.element_spec
        self._order = data_compat.own_variable(np.zeros([0], np.int64), shape=[None])
        self.dataset = _in_order_of(
            self._order, self._whole(), samples=self._n, batch=self._batch
        )

    @property
    @override
    def batch(self) -> int:
        """Samples a step."""
        return self._batch

    @property
    @override
    def element_spec(self) -> Any:
        """Shapes and dtypes of a batch, as Keras' own pipeline has them."""
        return self._spec

    @property
    @override
    def array_bytes(self) -> int:
        """TensorFlow copies an array but where it happens to lie at a multiple of 64."""
        leaves = keras_compat.tree.flatten(self._inputs)
        return sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves)

    @property
    @override
    def in_memory(self) -> bool:
        return all(map(_in_memory, keras_compat.tree.flatten(self._inputs)))

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Shapes, dtypes and some of the rows."""
        return {
            "kind": self.kind,
            **data_fingerprint.of_arrays(self._inputs),
        }

    @override
    def why_not_exact(self) -> None:
        """Arrays are exact."""
        return

    @override
    def why_not_begun_anew(self) -> None:
        """The order is ours, from its beginning."""
        return

    @property
    @override
    def cut_bytes(self) -> int:
        leaves = keras_compat.tree.flatten(self._inputs)
        cut = all(isinstance(one, np.ndarray) for one in leaves)
        return self.array_bytes if cut else 0

    @override
    def stream(self) -> bool:
        """Let batches be cut from main memory, and hold no copy of the data beside; whether
        that can be done: all of them are arrays of NumPy."""
        inputs = self._sliceable()
        leaves = keras_compat.tree.flatten(inputs)
        if not all(isinstance(one, np.ndarray) for one in leaves):
            return False
        read = _batches_of_indices(self._order, samples=self._n, batch=self._batch)
        cut = tf_data.input_changes().cut
        take = as_written(lambda indices: cut(inputs, indices))
        self.dataset = _as_keras_does(
            read.map(take, num_parallel_calls=tf.data.AUTOTUNE)
        )
        return True

    def _keras_order(self) -> np.ndarray | None:
        return sample_order.repeated_by_keras(
            self._n, batch=self._batch, shuffle=self._shuffle
        )

    def samples_in_order(self, begun: int) -> np.ndarray:
        """The samples (n,) int64 in the order of the ``begun``-th time."""
        if not self._shuffle:
            return np.arange(self._n)
        if self._repeated is not None:
            return self._repeated
        mixed = sample_order.permutation(
            self._n, seed=self._seed, fit=self._fit, begun=begun
        )
        if self._shuffle != "batch":
            return mixed
        return sample_order.within_batches(mixed, batch=self._batch)

    @override
    def begin(self) -> Any:
        """An iterator over a new permutation."""
        return self._from(begun=self.begun + 1, drawn=0)

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """An iterator over the rest of the ``begun``-th permutation."""
        return self._from(begun=begun, drawn=drawn)

    def _from(self, *, begun: int, drawn: int) -> Any:
        self.begun, self.drawn = begun, drawn
        # Read when the new iterator is first asked; an older one has read its own.
        self._order.assign(self.samples_in_order(begun)[drawn * self._batch :])
        return self._iterate(self.dataset)

    @override
    def first_batch(self) -> Any:
        """The first samples, in their own order."""
        inputs = self._sliceable()
        return _gather(inputs, tf.range(min(self._batch, self._n), dtype=tf.int64))

    def _sliceable(self) -> Any:
        inputs = keras_compat.array_slicing.convert_to_sliceable(
            self._inputs, target_backend="tensorflow"
        )
        return keras_compat.tree.lists_to_tuples(inputs)

    def _whole(self) -> Any:
        """All samples as the one element of a dataset, again and again.

        Keras' own, where it is found: another would be another copy of the data.
        """
        found = data_compat.whole_arrays(self.dataset)
        data = (
            tf.data.Dataset.from_tensors(self._sliceable()) if found is None else found
        )
        return data.repeat()


def _in_order_of(order: Any, whole: Any, *, samples: int, batch: int) -> Any:
    """Keras' pipeline (``ArrayDataAdapter.get_tf_dataset``) with our indices.

    ``order``: the variable that they are read from; ``whole`` repeats the data.
    """
    read = _batches_of_indices(order, samples=samples, batch=batch)
    batches = tf.data.Dataset.zip((read, whole)).map(
        as_written(lambda i, inputs: _gather(inputs, i)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return _as_keras_does(batches)


def _batches_of_indices(order: Any, *, samples: int, batch: int) -> Any:
    """Those of each batch, from the variable ``order``."""
    data = tf.data.Dataset

    def in_batches(indices: Any) -> Any:
        full = tf.shape(indices, out_type=tf.int64)[0] // batch
        shaped = tf.reshape(indices[: full * batch], [full, batch])
        batches = data.from_tensor_slices(shaped)
        if samples % batch:
            rest = data.from_tensors(indices[full * batch :])
            batches = batches.concatenate(rest)
        return batches

    read = data.range(1).map(as_written(lambda _: order.read_value()))
    return read.flat_map(as_written(in_batches))


def _as_keras_does(batches: Any) -> Any:
    """With its options, and what it reads ahead."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return batches.with_options(options).prefetch(tf.data.AUTOTUNE)


def _in_memory(leaf: Any) -> bool:
    """A mapped file is read, by whichever array shows it."""
    while isinstance(leaf, np.ndarray):
        if isinstance(leaf, np.memmap):
            return False
        if leaf.base is None:
            return True
        leaf = leaf.base
    return bool(tf.is_tensor(leaf))


def _gather(inputs: Any, indices: Any) -> Any:
    wrapper = keras_compat.array_slicing.TensorflowSparseWrapper

    def take(value: Any) -> Any:
        if isinstance(value, wrapper):
            return keras_compat.array_slicing.slice_tensorflow_sparse_wrapper(
                value, indices
            )
        if isinstance(value, (list, tuple, dict)):
            return None  # goes on inside
        if tf.is_tensor(value):
            return tf.gather(value, indices, axis=0)
        # NumPy arrays are tensors only inside of a dataset.
        return value[np.asarray(indices)] if isinstance(value, np.ndarray) else value

    return keras_compat.tree.traverse(take, inputs)
