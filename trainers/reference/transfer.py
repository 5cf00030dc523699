"""Transfer learning in two phases: the head alone, then the upper layers with it.

Teaches: what is frozen needs neither gradients nor the optimizer's state, so the first
phase takes a fraction of the memory of the second, and a batch that fits there may not
fit later; ``compile`` again after ``trainable`` was changed, or nothing changes; the
layers of BatchNormalization stay in inference mode (``training=False``), or their
statistics are lost in a few small batches (and where the base was trained for few steps,
a momentum of 0.9 instead of 0.99 lets them arrive at all); a learning rate a tenth of the
first.

The base is trained on the digits 0 to 4 that scikit-learn ships, and then told to
tell 5 to 9 apart: no download. A published base would be loaded in its place.
``python transfer.py [--batch 64]``
"""

import argparse

import keras
import numpy as np
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
asked = parser.parse_args()

keras.utils.set_random_seed(5)

digits = load_digits()
images = np.kron(digits.images / 16.0, np.ones((4, 4))).astype("float32")[..., None]


def task(first: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels (0 to 4) of five digits from ``first`` on."""
    chosen = (digits.target >= first) & (digits.target < first + 5)
    return images[chosen], digits.target[chosen] - first


def backbone() -> keras.Model:
    """Images to features, as a published base would."""
    layers: list[keras.layers.Layer] = [keras.Input(images.shape[1:])]
    for filters in (16, 32, 64):
        layers += [
            keras.layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
        ]
    return keras.Sequential(
        [*layers, keras.layers.GlobalAveragePooling2D()], name="base"
    )


def classifier(base: keras.Model, *, training: bool | None) -> keras.Model:
    """``base`` with a head for five classes."""
    inputs = keras.Input(images.shape[1:])
    x = keras.layers.Dropout(0.2)(base(inputs, training=training))
    return keras.Model(inputs, keras.layers.Dense(5)(x))


def compiled(model: keras.Model, rate: float) -> keras.Model:
    """``model`` with a new optimizer: one of before has states of what was trainable."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


base = backbone()
print("the base")
compiled(classifier(base, training=None), 3e-3).fit(
    *task(0), batch_size=asked.batch, epochs=4, verbose=2
)

print("the head alone")
base.trainable = False
model = classifier(base, training=False)
compiled(model, 3e-3).fit(
    *task(5), batch_size=asked.batch, epochs=3, validation_split=0.2, verbose=2
)

print("the upper layers with it")
base.trainable = True
for layer in base.layers[:3]:
    layer.trainable = False
compiled(model, 3e-4).fit(
    *task(5), batch_size=asked.batch, epochs=3, validation_split=0.2, verbose=2
)
