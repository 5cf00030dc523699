"""An autoencoder on Keras' JAX back end.

Teaches: the back end is chosen before Keras is imported; a model of Keras' own operations
(``keras.ops``) runs on either framework; with JAX ``fit`` keeps all state in one function
that is compiled whole, so a step of one's own returns what it changed and assigns nothing;
shapes are compiled once each, so the last batch of an epoch is as long as all others.

The data are made by the script: circles of several sizes, with noise.
``python on_jax.py [--images 2048] [--epochs 4] [--batch 64]``
"""

import argparse
import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras import ops

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=2048)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=64)
asked = parser.parse_args()

keras.utils.set_random_seed(11)
SIDE, LATENT = 32, 8


def circles(count: int) -> np.ndarray:
    """Images of float32 in [0, 1], (count, 32, 32, 1)."""
    rng = np.random.default_rng(11)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    middle, radius = rng.uniform(8, 24, (count, 2)), rng.uniform(3, 8, count)
    far = np.hypot(
        rows[None] - middle[:, 0, None, None], columns[None] - middle[:, 1, None, None]
    )
    images = 0.8 * (far < radius[:, None, None]) + 0.2 * rng.random(far.shape)
    return images[..., None].astype("float32")


class NoisyAutoencoder(keras.Model):
    """Compresses an image to a few numbers, with noise on them in training."""

    def __init__(self, latent: int) -> None:
        super().__init__()
        self.noise = keras.layers.GaussianNoise(0.1, seed=12)
        layers = keras.layers
        self.encoder = keras.Sequential(
            [
                layers.Conv2D(16, 3, 2, padding="same", activation="relu"),
                layers.Conv2D(32, 3, 2, padding="same", activation="relu"),
                layers.Flatten(),
                layers.Dense(latent),
            ]
        )
        self.decoder = keras.Sequential(
            [
                layers.Dense(8 * 8 * 32, activation="relu"),
                layers.Reshape((8, 8, 32)),
                layers.Conv2DTranspose(16, 3, 2, padding="same", activation="relu"),
                layers.Conv2DTranspose(1, 3, 2, padding="same"),
            ]
        )

    def call(self, images: keras.KerasTensor, *, training: bool = False) -> object:
        """(batch, 32, 32, 1) to the same, in [0, 1]."""
        code = self.noise(self.encoder(images), training=training)
        return ops.sigmoid(self.decoder(code))


images = circles(asked.images // asked.batch * asked.batch)
model = NoisyAutoencoder(LATENT)
model.compile(keras.optimizers.Adam(1e-3), "mse")
model.fit(images, images, batch_size=asked.batch, epochs=asked.epochs, verbose=2)
print(f"mean squared error: {float(model.evaluate(images, images, verbose=0)):.5f}")
