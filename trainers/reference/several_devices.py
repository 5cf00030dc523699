"""One model on several devices of a machine, by ``MirroredStrategy``.

Teaches: model, optimizer and metrics are made in the strategy's scope, data outside of it;
the batch that ``fit`` is given is that of all devices together, so it grows with their
number where each shall have as much to do, and the learning rate of Adam with its root;
what a device cannot take is answered by slices of its part, as on one device.

Without GPUs the machine's CPU stands in for two devices. The data are made by the script:
points of two spirals. ``python several_devices.py [--each 32] [--units 64]
[--epochs 6]``
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--each", type=int, default=32, help="samples a device and step")
parser.add_argument("--units", type=int, default=64, help="of each hidden layer")
parser.add_argument("--epochs", type=int, default=6)
asked = parser.parse_args()

keras.utils.set_random_seed(9)
SAMPLES = 4096
RATE = 3e-3


def spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 2) of two spirals, and to which of them each belongs."""
    rng = np.random.default_rng(9)
    turn = rng.uniform(0.25, 2, count) * 2 * np.pi
    kind = rng.integers(0, 2, count)
    radius = turn / 12 * np.where(kind, 1, -1)
    points = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    points += rng.normal(0, 0.02, points.shape)
    return points.astype("float32"), kind.astype("float32")


gpus = tf.config.list_physical_devices("GPU")
if not gpus:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
batch = asked.each * strategy.num_replicas_in_sync

x, y = spirals(SAMPLES)
held_out = SAMPLES // 8
train = (
    tf.data.Dataset.from_tensor_slices((x[held_out:], y[held_out:]))
    .shuffle(SAMPLES, seed=10)
    .batch(batch, drop_remainder=True)  # no device is without samples in a last step
    .prefetch(1)
)
test = tf.data.Dataset.from_tensor_slices((x[:held_out], y[:held_out])).batch(batch)

with strategy.scope():
    hidden = [keras.layers.Dense(asked.units, "relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((2,)), *hidden, keras.layers.Dense(1)])
    model.compile(
        keras.optimizers.Adam(RATE * strategy.num_replicas_in_sync**0.5),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
print(f"{strategy.num_replicas_in_sync} devices, {batch} samples a step")
model.fit(train, validation_data=test, epochs=asked.epochs, verbose=2)
