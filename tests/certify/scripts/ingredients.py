"""Data with ids, and models that count them.

The id of a sample is the last column of its features. A ``Ledger`` layer counts ids in
the train step itself, so the count is part of the model.
"""

import keras
import numpy as np
import tensorflow as tf

N, WIDTH, BATCH = 96, 5, 12
BACKEND = keras.backend.backend()
JIT = False if BACKEND == "tensorflow" else "auto"


def samples(n=N, seed=0):
    """Features (n, WIDTH + 1), the last column the id, and classes (n,)."""
    x = np.random.default_rng(seed).normal(size=(n, WIDTH)).astype("float32")
    y = (x.sum(1) > 0).astype("int32")
    return np.concatenate([x, np.arange(n, dtype="float32")[:, None]], 1), y


@keras.saving.register_keras_serializable()
class Ledger(keras.layers.Layer):
    """Counts the ids it sees in training and takes them out of the features."""

    def __init__(self, n=N, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.n = n

    def build(self, _shape):
        kinds = {"initializer": "zeros", "trainable": False}
        self.seen = self.add_weight(
            shape=(self.n,), dtype="int32", name="seen", **kinds
        )
        self.steps = self.add_weight(shape=(), dtype="int32", name="steps", **kinds)

    def call(self, inputs, training=False):
        if training:
            ids = keras.ops.cast(inputs[:, -1:], "int32")
            self.seen.assign(counted(self.seen.value, ids))
            # Hangs on the data: a call that finds none left is no step.
            self.steps.assign_add(1 + 0 * ids[0, 0])
        return inputs[:, :-1]

    def compute_output_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)


def counted(seen, ids):
    """``seen`` with one more for each of ``ids`` (n, 1)."""
    if BACKEND == "jax":
        return seen.at[ids[:, 0]].add(1)
    if BACKEND == "torch":
        return seen.index_add(0, ids[:, 0].long(), keras.ops.ones_like(ids[:, 0]))
    return tf.tensor_scatter_nd_add(seen, ids, tf.ones_like(ids[:, 0]))


def glorot():
    return keras.initializers.GlorotUniform(3)


def make(*layers, optimizer=None, jit=JIT, **options):
    """A compiled classifier that begins with a Ledger."""
    middle = layers or (keras.layers.Dense(8, "relu", kernel_initializer=glorot()),)
    model = keras.Sequential(
        [
            keras.Input((WIDTH + 1,)),
            Ledger(),
            *middle,
            keras.layers.Dense(2, kernel_initializer=glorot()),
        ]
    )
    compiled(model, optimizer=optimizer, jit=jit, **options)
    return model


def compiled(model, *, optimizer=None, jit=JIT, **options):
    model.compile(
        optimizer or keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit,
        **options,
    )


def seeded():
    keras.utils.set_random_seed(7)
    return samples()


def noisy(**options):
    return make(
        keras.layers.Dense(8, "relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dropout(0.3),
        **options,
    )


def pipeline(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y))
