"""The models of ``make bench-toolbox``, as a script that knows nothing of a supervisor.

``python toolbox_trial.py convolutions|unet|transformer [--separable] [--slices N]``
"""

import argparse
from typing import Any

import keras
import numpy as np

from trainers.toolbox.accumulation import gradients_in_slices
from trainers.toolbox.separable import separable_block

BATCHES = 4
layers = keras.layers


class SlicedModel(keras.Model):
    """``fit`` by a step of its own, which takes its gradients from
    ``gradients_in_slices``."""

    slices = 1

    def train_step(self, data: Any) -> dict[str, Any]:
        """One update, of the whole batch."""
        x, y = data

        def loss_of(x: Any, y: Any) -> Any:
            return self.compute_loss(x, y, self(x, training=True))

        loss, gradients = gradients_in_slices(
            loss_of, self.trainable_variables, (x, y), slices=self.slices
        )
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def block(x: Any, filters: int, *, separable: bool) -> Any:
    """A convolution, normalised and activated, of either kind."""
    if separable:
        return separable_block(x, filters)
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def convolutions(*, separable: bool) -> tuple[Any, Any]:
    """Of images of 32 by 32, three channels: (inputs, outputs)."""
    inputs = keras.Input((32, 32, 3))
    found = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    for filters in (32, 64, 128):
        found = layers.MaxPooling2D()(block(found, filters, separable=separable))
    return inputs, layers.Dense(1)(layers.GlobalAveragePooling2D()(found))


def unet(*, separable: bool) -> tuple[Any, Any]:
    """Of images of 128 by 128: (inputs, outputs)."""
    inputs = found = keras.Input((128, 128, 1))
    beside = []
    for filters in (8, 16, 32):
        for _ in range(2):
            found = block(found, filters, separable=separable)
        beside.append(found)
        found = layers.MaxPooling2D()(found)
    found = block(found, 64, separable=separable)
    for filters, kept in zip((32, 16, 8), reversed(beside), strict=True):
        found = layers.Conv2DTranspose(filters, 2, strides=2)(found)
        found = layers.Concatenate()([found, kept])
        found = block(found, filters, separable=separable)
    return inputs, layers.Conv2D(1, 1)(found)


def transformer(*, separable: bool) -> tuple[Any, Any]:
    """Of texts of 128 tokens, four layers: (inputs, outputs)."""
    del separable  # it has no convolutions
    inputs = keras.Input((128,), dtype="int32")
    found = layers.Embedding(WORDS, 128)(inputs)
    for _ in range(4):
        seen = layers.MultiHeadAttention(4, 32)(found, found)
        found = layers.LayerNormalization()(found + seen)
        wide = layers.Dense(512, activation="gelu")(found)
        found = layers.LayerNormalization()(found + layers.Dense(128)(wide))
    return inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(found))


WORDS = 5000
MODELS = {"convolutions": convolutions, "unet": unet, "transformer": transformer}
BATCH = {"convolutions": 128, "unet": 16, "transformer": 32}


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--separable", action="store_true")
    parser.add_argument("--slices", type=int, default=1)
    asked = parser.parse_args()
    keras.utils.set_random_seed(1)
    inputs, outputs = MODELS[asked.model](separable=asked.separable)
    kind = keras.Model if asked.slices == 1 else SlicedModel
    model = kind(inputs, outputs)
    model.slices = asked.slices
    batch = BATCH[asked.model]
    rng, samples = np.random.default_rng(1), BATCHES * batch
    if asked.model == "transformer":
        x = rng.integers(0, WORDS, (samples, *inputs.shape[1:]), "int32")
    else:
        x = rng.random((samples, *inputs.shape[1:]), "float32")
    y = rng.integers(0, 2, (samples, *outputs.shape[1:])).astype("float32")
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(x, y, batch_size=batch, epochs=4, verbose=0)


if __name__ == "__main__":
    main()
