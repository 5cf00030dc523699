"""Segmentation of large images with a U-Net, from files that are read as they are needed.

Teaches: images that do not fit into memory together are streamed (``tf.data`` from files,
in a shuffle of *names*, which costs nothing, not of images); a U-Net needs much memory for
what the way down keeps for the way up, so a smaller batch or slices help at once; the
metric of a mask is the overlap, as nearly all pixels are background.

The images are made by the script: bright ellipses on noise, and their masks.
``python segmentation.py [--side 128] [--images 48] [--batch 8] [--epochs 3]``
"""

import argparse
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--side", type=int, default=128, help="pixels, a multiple of 8")
parser.add_argument("--images", type=int, default=48)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--data", type=Path, help="where the images are kept")
asked = parser.parse_args()

keras.utils.set_random_seed(3)


def made(rng: np.random.Generator, side: int) -> tuple[np.ndarray, np.ndarray]:
    """An image of float32 in [0, 1], (side, side, 1), and its mask of 0 and 1."""
    rows, columns = np.mgrid[:side, :side]
    mask = np.zeros((side, side), bool)
    for _ in range(3):
        row, column = rng.uniform(0.2, 0.8, 2) * side
        high, wide = rng.uniform(0.05, 0.2, 2) * side
        mask |= ((rows - row) / high) ** 2 + ((columns - column) / wide) ** 2 < 1
    image = 0.3 * rng.random((side, side)) + 0.5 * mask
    return image[..., None].astype("float32"), mask[..., None].astype("float32")


def written(directory: Path) -> list[str]:
    """Files with an image and its mask each; those that are there are left alone."""
    directory.mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(asked.images):
        path = directory / f"{number:05}-{asked.side}.npy"
        if not path.exists():
            image, mask = made(np.random.default_rng(number), asked.side)
            np.save(path, np.stack([image, mask]))
        names.append(str(path))
    return names


def read(name: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Image and mask of a file, read when a batch is made of it."""
    shape = (2, asked.side, asked.side, 1)
    header = 128  # of the format that ``np.save`` writes, for an array of four axes
    values = tf.io.decode_raw(
        tf.strings.substr(tf.io.read_file(name), header, -1), "float32"
    )
    pair = tf.reshape(values, shape)
    return pair[0], pair[1]


def block(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    """Two convolutions, each normalised."""
    for _ in range(2):
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
    return x


def unet(side: int) -> keras.Model:
    """Down to an eighth and up again, with what each step down had beside it."""
    inputs = x = keras.Input((side, side, 1))
    beside = []
    for filters in (8, 16, 32):
        x = block(x, filters)
        beside.append(x)
        x = keras.layers.MaxPooling2D()(x)
    x = block(x, 64)
    for filters, kept in zip((32, 16, 8), reversed(beside), strict=True):
        x = keras.layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = block(keras.layers.Concatenate()([x, kept]), filters)
    return keras.Model(inputs, keras.layers.Conv2D(1, 1, activation="sigmoid")(x))


def overlap_loss(truth: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """One less the Dice coefficient of each image, (batch,): each counts alike, however
    large its mask, and the mean over slices is that over the batch."""
    axes = (1, 2, 3)
    both = keras.ops.sum(truth * found, axes)
    each = keras.ops.sum(truth, axes) + keras.ops.sum(found, axes)
    return 1 - (2 * both + 1) / (each + 1)


place = asked.data or Path(tempfile.gettempdir()) / "trainwarden-segmentation"
names = written(place)
held_out = len(names) // 6
files = tf.data.Dataset.from_tensor_slices(names[held_out:])
train = (
    files.shuffle(len(names), seed=4)
    .map(read, num_parallel_calls=2, deterministic=True)
    .batch(asked.batch)
    .prefetch(1)  # more hides no more, and each is a batch in memory
)
test = tf.data.Dataset.from_tensor_slices(names[:held_out]).map(read).batch(asked.batch)

model = unet(asked.side)
model.compile(
    keras.optimizers.Adam(3e-3),
    overlap_loss,
    metrics=[keras.metrics.BinaryIoU(target_class_ids=[1])],
)
model.fit(train, validation_data=test, epochs=asked.epochs, verbose=2)
