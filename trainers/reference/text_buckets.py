"""A small transformer on texts of unlike length, in buckets of like ones.

Teaches: padding to the longest text of all is what runs out of memory (attention needs
the square of the length); in buckets a batch is as long as its own longest text, and long
texts come in smaller batches, so that each step needs about the same; each length is
traced and compiled once, so there are few of them; padding is masked out of attention,
loss and metrics.

The texts are made by the script: letters, and whether most of them are vowels.
``python text_buckets.py [--texts 1200] [--epochs 3]``
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--texts", type=int, default=1200)
parser.add_argument("--epochs", type=int, default=3)
asked = parser.parse_args()

keras.utils.set_random_seed(6)
LENGTHS = (16, 32, 64)
"""Longest text of each bucket."""
TOKENS_A_BATCH = 1024
WIDTH, HEADS = 32, 4
PAD, LETTERS = 0, 26


def text(rng: np.random.Generator) -> tuple[list[int], int]:
    """Letters, and 1 where there are more vowels than not."""
    length = int(rng.integers(5, LENGTHS[-1] + 1))
    vowels = rng.random(length) < rng.uniform(0.2, 0.8)
    letters = np.where(vowels, rng.integers(1, 6, length), rng.integers(6, 27, length))
    return letters.tolist(), int(vowels.mean() > 0.5)


rng = np.random.default_rng(6)
texts = [text(rng) for _ in range(asked.texts)]
ragged = tf.ragged.constant([one for one, _ in texts], dtype=tf.int32)
labels = np.array([label for _, label in texts], "float32")
data = (
    tf.data.Dataset.from_tensor_slices((ragged, labels))
    .map(lambda one, label: (one, label))  # a row of a ragged tensor to a plain one
    .shuffle(len(texts), seed=7)
    .bucket_by_sequence_length(
        lambda one, _label: tf.shape(one)[0],
        bucket_boundaries=[length + 1 for length in LENGTHS],
        bucket_batch_sizes=[TOKENS_A_BATCH // length for length in (*LENGTHS, 1024)],
        pad_to_bucket_boundary=True,  # not to its own longest: three shapes in all
    )
    .prefetch(1)
)


@keras.saving.register_keras_serializable("trainwarden")
class Positions(keras.layers.Layer):
    """Adds a learned vector for each place in the text."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """One for each place of the longest."""
        self.table = self.add_weight(
            shape=(LENGTHS[-1], input_shape[-1]), initializer="glorot_uniform"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(batch, length, width) to the same."""
        return x + self.table[: keras.ops.shape(x)[1]]


ids = keras.Input((None,), dtype="int32")
real = keras.ops.not_equal(ids, PAD)
x = Positions()(keras.layers.Embedding(1 + LETTERS, WIDTH)(ids))
for _ in range(2):
    attended = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=0.1)(
        x, x, attention_mask=real[:, None, :]
    )
    x = keras.layers.LayerNormalization()(x + attended)
    wide = keras.layers.Dense(2 * WIDTH, activation="gelu")(x)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH)(wide))
weights = keras.ops.cast(real, "float32")[..., None]
mean = keras.ops.sum(x * weights, 1) / keras.ops.sum(weights, 1)
model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(mean))

model.compile(keras.optimizers.AdamW(2e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(data, epochs=asked.epochs, verbose=2)
