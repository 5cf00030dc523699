"""A GAN with a ``train_step`` of its own: two networks, two optimizers, one ``fit``.

Teaches: what belongs to the model is its attribute (networks, optimizers, metrics, the
generator of noise), so that whoever saves the model saves all of it; noise comes from a
``keras.random.SeedGenerator``, whose state is a variable, not from ``tf.random.normal``,
whose state nobody can read; an error is raised where it happens, as a loss that is no
number spreads to the other network within one step.

The images are the digits that scikit-learn ships, 8 by 8.
``python gan.py [--epochs 4] [--batch 64]``
"""

import argparse
from typing import Any

import keras
import tensorflow as tf
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
asked = parser.parse_args()

keras.utils.set_random_seed(9)
LATENT = 16


class Gan(keras.Model):
    """A generator that learns to pass for what the discriminator saw."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential(
            [
                keras.Input((LATENT,)),
                keras.layers.Dense(4 * 4 * 16, activation="relu"),
                keras.layers.Reshape((4, 4, 16)),
                keras.layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
                keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
            ]
        )
        self.discriminator = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Conv2D(16, 3, 2, "same", activation="leaky_relu"),
                keras.layers.Dropout(0.3),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        self.noise = keras.random.SeedGenerator(10)
        self.generator_loss = keras.metrics.Mean("generator_loss")
        self.discriminator_loss = keras.metrics.Mean("discriminator_loss")

    def compile(self, rate: float) -> None:
        """An optimizer for each network: moments of one are none of the other's."""
        super().compile()
        self.generator_optimizer = keras.optimizers.Adam(rate, beta_1=0.5)
        self.discriminator_optimizer = keras.optimizers.Adam(rate, beta_1=0.5)
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Set back at the beginning of each epoch."""
        return [self.generator_loss, self.discriminator_loss]

    def train_step(self, real: tf.Tensor) -> dict[str, Any]:
        """One step of each network, on the same noise."""
        count = tf.shape(real)[0]
        noise = keras.random.normal((count, LATENT), seed=self.noise)
        with tf.GradientTape(persistent=True) as tape:
            made = self.generator(noise, training=True)
            judged = self.discriminator(tf.concat([real, made], 0), training=True)
            truth = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], 0)
            discriminator_loss = self.loss_of(truth, judged)
            passed = judged[count:]
            generator_loss = self.loss_of(tf.ones_like(passed), passed)
        for network, optimizer, loss in (
            (self.discriminator, self.discriminator_optimizer, discriminator_loss),
            (self.generator, self.generator_optimizer, generator_loss),
        ):
            weights = network.trainable_variables
            optimizer.apply_gradients(
                zip(tape.gradient(loss, weights), weights, strict=True)
            )
        self.generator_loss.update_state(generator_loss)
        self.discriminator_loss.update_state(discriminator_loss)
        return {metric.name: metric.result() for metric in self.metrics}


images = (load_digits().images / 16.0).astype("float32")[..., None]
data = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images), seed=11)
gan = Gan()
gan.compile(rate=2e-3)
gan.fit(data.batch(asked.batch, drop_remainder=True), epochs=asked.epochs, verbose=2)
