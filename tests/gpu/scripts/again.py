"""``again.py plain|xla``: run out of memory in a process, catch it, and train on there.

Prints JSON: whether convolutions still work in that process, on the GPU.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
limit = tf.config.LogicalDeviceConfiguration(memory_limit=3072)
tf.config.set_logical_device_configuration(gpu, [limit])


def model(*, xla):
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.layers.Input((64, 64, 3)),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile("sgd", loss, jit_compile=xla)
    return made


def batch(size):
    draw = np.random.default_rng(0)
    return draw.standard_normal((size, 64, 64, 3), dtype=np.float32), draw.integers(
        0, 10, size
    )


xla = sys.argv[1] == "xla"
alone = model(xla=xla).train_on_batch(*batch(32))
failed = ""
try:
    model(xla=xla).train_on_batch(*batch(2048))
except Exception as error:  # whatever TensorFlow raises
    failed = f"{type(error).__name__}: {error}"[:600]
try:
    after = model(xla=xla).train_on_batch(*batch(32))
    worked = f"the same loss: {float(alone) == float(after)}"
except Exception as error:  # a process that is broken for good may raise anything
    worked = f"{type(error).__name__}: {error}"[:600]
print(json.dumps({"failed": failed, "again": worked}))
