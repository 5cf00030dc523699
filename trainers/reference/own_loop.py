"""A GradientTape loop of one's own that goes on in the middle of its data.

Teaches: an unmodified loop is followed by its record, and resumed (``docs/resume.md``);
with ``trainers.session`` it says itself what its state is, and nothing is computed again.
Without a supervisor a session does nothing, so the script stays what it was.
``python own_loop.py [--epochs 4] [--batch 64] [--units 64]``
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from trainers.session import session

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--units", type=int, default=64)
asked = parser.parse_args()

keras.utils.set_random_seed(12)
digits = load_digits()
x = (digits.data / 16.0).astype("float32")
y = digits.target.astype(np.int32)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=13)

model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(asked.units, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ]
)
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
mean_loss = keras.metrics.Mean()


@tf.function
def step(images: tf.Tensor, labels: tf.Tensor) -> None:
    """One update."""
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    mean_loss.update_state(loss)


with session(model=model, optimizer=optimizer, mean_loss=mean_loss) as run:
    for epoch in run.epochs(asked.epochs):
        for images, labels in run.batches(data.batch(asked.batch)):
            step(images, labels)
        print(f"epoch {epoch + 1}: loss {float(mean_loss.result()):.4f}")
        mean_loss.reset_state()
